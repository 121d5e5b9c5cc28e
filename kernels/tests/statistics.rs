//! How much a convolution writes for the norm behind it.

use qcs_kernels::network::conv::statistics::{statistics_len, statistics_pay};

#[test]
fn statistics_are_an_eighth_of_a_map_and_pay_where_no_row_is_in_vain() {
    for side in [28, 32, 16, 64] {
        let pixels = side * side;
        assert_eq!(8 * statistics_len(5, 16, pixels), (5 * 16 * pixels * 8) as usize);
        assert!(statistics_pay(pixels));
    }
    assert!(!statistics_pay(14 * 14));
    assert_eq!(statistics_len(1, 1, 14 * 14), 13 * 16);
}
