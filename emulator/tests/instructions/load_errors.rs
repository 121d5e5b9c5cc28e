//! What cannot be run is refused when the module is loaded, with its line.

use qcs_emulator::Module;

fn load(body: &str) -> Result<Module, qcs_emulator::LoadError> {
    Module::parse(&format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k() {{\n\
         .reg .pred %p; .reg .b16 %h; .reg .b32 %r<4>; .reg .b64 %d<4>;\n{body}\nret;\n}}"
    ))
}

/// The body is line 6.
#[track_caller]
fn refused(body: &str, message: &str) {
    let error = load(body).expect_err(body);
    assert_eq!(error.line, 6, "{body}: {error}");
    assert!(error.message.contains(message), "{body}: {error}");
}

#[test]
fn unknown_instructions_and_suffixes() {
    refused("frobnicate.u32 %r1, %r2;", "unknown instruction");
    refused("add.wibble.s32 %r1, %r2, %r3;", "'.wibble'");
    refused("tex.2d.v4.f32.f32 {%r1, %r1, %r1, %r1}, [t, {%r1, %r2}];", "");
    refused("add.rn.s32 %r1, %r2, %r3;", "");
    refused("shfl.down.b32 %r1, %r2, 1, 31;", ".sync is missing");
    refused("wgmma.fence.sync.aligned;", "unknown instruction");
    refused("cp.async.bulk.commit_group;", "");
    refused(
        "mma.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32 {%r1}, {%r1}, {%r1}, {%r1};",
        "combination",
    );
}

#[test]
fn wrong_operands() {
    refused("add.s32 %r1, %r2;", "too few operands");
    refused("add.s32 %r1, %r2, %r3, %r1;", "too many operands");
    refused("add.s32 %r9, %r2, %r3;", "unknown register '%r9'");
    refused("add.s64 %d1, %r2, %d3;", "too narrow");
    refused("add.s32 %d1, %r2, %r3;", "does not fit");
    refused("mov.u32 %r1, %nosuch;", "unknown operand");
    refused("ld.global.u32 %r1, [nowhere];", "unknown variable");
    refused("@%r1 bra END;", "not a predicate");
    refused("bra NOWHERE;", "unknown label 'NOWHERE'");
    refused("st.param.u32 [%d1], %r1;", "cannot be written");
    refused("ex2.f32 %r1, %r2;", ".approx is missing");
    refused("cvt.s32.f32 %r1, %r2;", "integer rounding");
    refused("call nothing, ();", "no body");
}

#[test]
fn a_function_nobody_calls_is_checked_too() {
    let text = ".version 7.0\n.target sm_80\n.func f() {\n.reg .b32 %r<2>;\nbogus.u32 %r1, %r0;\nret;\n}";
    let error = Module::parse(text).unwrap_err();
    assert_eq!((error.line, error.message.contains("(in f)")), (5, true), "{error}");
}

#[test]
fn recursion_is_refused() {
    let text = ".version 7.0\n.target sm_80\n.func f() {\ncall f, ();\nret;\n}";
    assert!(Module::parse(text).unwrap_err().message.contains("recursive"));
}

#[test]
fn module_level_mistakes() {
    for (text, line) in [
        (".version 7.0\n.wrong", 2),
        (".global .u32", 1),
        (".entry k() { ", 1),
        ("\n\n.func é", 3),
    ] {
        assert_eq!(Module::parse(text).unwrap_err().line, line, "{text}");
    }
}

#[test]
fn a_good_module_describes_its_kernels() {
    let module = Module::parse(
        ".version 6.4\n.target sm_70\n.visible .entry k(.param .u32 a, .param .u64 b)\n.maxntid 128, 2, 1\n{ ret; }",
    )
    .unwrap();
    let kernel = module.kernel("k").unwrap();
    assert_eq!((module.version, module.target, kernel.max_threads), ((6, 4), 70, 256));
    assert_eq!(
        kernel.params.iter().map(|p| (p.offset, p.bytes)).collect::<Vec<_>>(),
        [(0, 4), (8, 8)]
    );
    assert!(module.kernel("other").is_none());
}

#[test]
fn live_registers_are_counted_at_the_busiest_point() {
    let text = ".version 7.0\n.target sm_80\n.visible .entry k(.param .u64 p) {
.reg .b32 %r<5>; .reg .b64 %d;
ld.param.u64 %d, [p];
ld.global.u32 %r1, [%d];
ld.global.u32 %r2, [%d+4];
ld.global.u32 %r3, [%d+8];
add.u32 %r1, %r1, %r2;
add.u32 %r1, %r1, %r3;
st.global.u32 [%d], %r1;
ret;
}";
    // The pointer takes two, and three loaded values are live after the third load.
    assert_eq!(Module::parse(text).unwrap().kernels[0].live_registers, 5);
}
