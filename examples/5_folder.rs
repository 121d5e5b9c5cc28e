//! A long run that keeps its state in a folder, as `qcs run` does: kill it and start it again.
//!
//! `cargo run --release --example 5_folder`

use qcs::Device;
use qcs::run::{Found, MeasureConfig, Run, RunConfig, RunFolder};

fn main() -> qcs::Result<()> {
    let config = RunConfig {
        methods: vec!["turbo".to_owned()],
        chains: 4,
        measure: Some(MeasureConfig {
            images: Some(qcs::bundled::DIGITS.to_owned()),
            bits: Some(2),
            ..MeasureConfig::default()
        }),
        ..RunConfig::default()
    };
    let mut engine = qcs::engine::open(&Device::Auto, None, 0)?.engine;
    let run = Run::load(config, engine.as_ref())?;

    let folder = RunFolder::new(std::env::temp_dir().join("qcs-example-5"));
    match folder.find()? {
        Found::Finished(_) => println!("it is finished"),
        // The same settings go on from the checkpoints in the folder.
        Found::Unfinished(begun) if begun == run.config => println!("it goes on"),
        _ => folder.claim(&run.config, true)?,
    }
    let results = run.execute(engine.as_mut(), &folder, &mut qcs::reconstruct::Unobserved)?;
    results.write(&run, &folder)?;
    println!("{}", folder.path().display());
    Ok(())
}
