//! Runs a few instructions in many lanes.

use qcs_emulator::{Device, LaunchConfig, Params};

/// Inputs of one lane.
pub type Case = [u64; 3];

/// Lane `i` finds its inputs in `%ra`, `%rb`, `%rc` (low halves), `%da`, `%db`, `%dc` and
/// `%ha`, `%hb`, `%hc`, and leaves its result in `%d`.
fn kernel(body: &str) -> String {
    format!(
        ".version 7.0
.target sm_80
.address_size 64
.visible .entry test(.param .u64 inputs, .param .u64 outputs) {{
    .reg .pred %p, %q;
    .reg .b16 %ha, %hb, %hc, %h;
    .reg .b32 %ra, %rb, %rc, %r, %s, %tid;
    .reg .b64 %da, %db, %dc, %d, %in, %out, %offset;
    ld.param.u64 %in, [inputs];
    ld.param.u64 %out, [outputs];
    mov.u32 %tid, %tid.x;
    mul.wide.u32 %offset, %tid, 24;
    add.s64 %in, %in, %offset;
    mul.wide.u32 %offset, %tid, 8;
    add.s64 %out, %out, %offset;
    ld.global.u64 %da, [%in];
    ld.global.u64 %db, [%in+8];
    ld.global.u64 %dc, [%in+16];
    cvt.u32.u64 %ra, %da;
    cvt.u32.u64 %rb, %db;
    cvt.u32.u64 %rc, %dc;
    cvt.u16.u64 %ha, %da;
    cvt.u16.u64 %hb, %db;
    cvt.u16.u64 %hc, %dc;
    mov.u64 %d, 0;
    {body}
    st.global.u64 [%out], %d;
    ret;
}}"
    )
}

/// Runs `body` once per case; at most 1024 cases.
pub fn run(body: &str, cases: &[Case]) -> Vec<u64> {
    let device = Device::default();
    let module = device.load(&kernel(body)).unwrap_or_else(|e| panic!("{body}: {e}"));
    let inputs = device.buffer(cases.as_flattened());
    let outputs = device.poisoned::<u64>(cases.len());
    let config = LaunchConfig::linear(1, cases.len() as u32);
    let params = Params::new().buffer(&inputs).buffer(&outputs);
    device
        .launch(&module, "test", config, &params)
        .unwrap_or_else(|e| panic!("{body}: {e}"));
    outputs.read()
}

/// `op %r, sources` on 32-bit registers.
pub fn run32(instruction: &str, cases: &[Case]) -> Vec<u32> {
    let body = format!("{instruction}; cvt.u64.u32 %d, %r;");
    run(&body, cases).into_iter().map(|v| v as u32).collect()
}

/// A result in `%h`.
pub fn run16(instruction: &str, cases: &[Case]) -> Vec<u16> {
    let body = format!("{instruction}; cvt.u64.u16 %d, %h;");
    run(&body, cases).into_iter().map(|v| v as u16).collect()
}

/// One case, one expected 32-bit result.
#[track_caller]
pub fn expect32(instruction: &str, [a, b, c]: [u32; 3], expected: u32) {
    let actual = run32(instruction, &[[a as u64, b as u64, c as u64]])[0];
    assert_eq!(
        actual, expected,
        "{instruction} of {a:#x}, {b:#x}, {c:#x}: {actual:#x}, not {expected:#x}"
    );
}

#[track_caller]
pub fn expect64(instruction: &str, case: Case, expected: u64) {
    let actual = run(instruction, &[case])[0];
    assert_eq!(
        actual, expected,
        "{instruction} of {case:#x?}: {actual:#x}, not {expected:#x}"
    );
}

/// xorshift64*.
pub fn random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}
