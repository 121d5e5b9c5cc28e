//! The metrics against scikit-image (fixtures written by `tests/fixtures/metrics/make.py`).

use qcs::files::{NpyArray, npy};
use qcs::metrics::{psnr, ssim};
use qcs::{ImageShape, Images};

fn fixture(name: &str) -> NpyArray {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/metrics");
    npy::read(format!("{folder}/{name}.npy")).unwrap()
}

fn images(name: &str) -> Images {
    let array = fixture(name);
    let shape = ImageShape::new(array.shape[1], array.shape[2], array.shape[3]);
    Images::new(shape, array.to_f32().into_owned())
}

fn agrees_with_scikit_image(name: &str) {
    let (x, truth) = (images(&format!("{name}_x")), images(&format!("{name}_truth")));
    let expected = fixture(&format!("{name}_psnr_ssim")).to_f64().into_owned();
    assert_eq!(expected.len(), 2 * x.count());
    for (image, expected) in expected.chunks_exact(2).enumerate() {
        let found_psnr = psnr(x.image(image), truth.image(image));
        let found_ssim = ssim(x.image(image), truth.image(image), x.shape).unwrap();
        assert!((found_psnr - expected[0]).abs() < 1e-10, "{found_psnr} {expected:?}");
        assert!((found_ssim - expected[1]).abs() < 1e-10, "{found_ssim} {expected:?}");
    }
}

#[test]
fn grey_images_get_the_psnr_and_ssim_of_scikit_image() {
    agrees_with_scikit_image("grey");
}

#[test]
fn rgb_images_get_the_psnr_and_ssim_of_scikit_image() {
    agrees_with_scikit_image("rgb");
}
