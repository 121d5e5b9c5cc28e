//! What is known, as lines for people.

use std::fmt::Write;

use qcs::methods;

use super::Info;

fn mib(bytes: usize) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Characters of a text of the metadata that are shown.
const LONGEST: usize = 160;

pub fn text(info: &Info) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:14}{value}");
    };
    if let Some(run) = &info.run {
        line("run", run.folder.clone());
        let state = if run.finished { "finished" } else { "unfinished" };
        let images = run.images.map_or("its images".to_owned(), |n| format!("{n} image(s)"));
        let (methods, chains, seed) = (run.methods.join(", "), run.chains, run.seed);
        line(
            "  of",
            format!("{images}, {chains} chain(s) each, by {methods}; seed {seed}; {state}"),
        );
        if run.diverged > 0 {
            line("  diverged", format!("{} states", run.diverged));
        }
    }
    if let Some(images) = &info.images {
        line("images", images.file.clone());
        line("  there are", format!("{} of shape {}", images.count, images.shape));
    }
    if let Some(problem) = &info.problem {
        let known = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
        line("problem", problem.file.clone());
        let truth = if problem.truth { ", truth known" } else { "" };
        line(
            "  images",
            format!("{} of shape {}{truth}", problem.images, known(problem.shape.clone())),
        );
        let condition = known(problem.condition.map(|c| format!("{c:.4}")));
        line(
            "  A",
            format!(
                "{} × {}, condition number {condition}",
                problem.measurements, problem.pixels
            ),
        );
        line("  law", known(problem.matrix.as_ref().map(|m| m.to_string())));
        line(
            "  operator",
            format!(
                "{}; {}, as a matrix of f64 {}",
                problem.operator,
                mib(problem.operator_bytes),
                mib(problem.matrix_bytes)
            ),
        );
        line("  noise", format!("sigma {}", methods::shown(problem.sigma)));
        let step = problem.step.map_or(String::new(), |s| format!(", step {s}"));
        line(
            "  quantiser",
            format!("{} bit(s){step}", known(problem.bits.map(|b| b.to_string()))),
        );
        let (bounded, lost) = (100.0 * problem.bounded, 100.0 * problem.lost);
        line(
            "  cells",
            format!("{bounded:.1} % bounded on both sides, {lost:.1} % lost"),
        );
    }
    if let Some(model) = &info.model {
        line("model", model.file.clone());
        line(
            "  network",
            format!(
                "{}, images {}, {} parameters",
                model.network, model.shape, model.parameters
            ),
        );
        match (model.sigma_begin, model.sigma_end, model.levels) {
            (Some(begin), Some(end), Some(levels)) => line("  levels", format!("{levels}, from {begin} to {end}")),
            _ => line("  levels", "not in the file".to_owned()),
        }
        for (name, fact) in &model.facts {
            line("", format!("{name} = {fact}"));
        }
        for note in &model.inferred {
            line("  inferred", note.clone());
        }
        for (file, digest) in &model.sha256 {
            line("  SHA-256", format!("{digest}  {file}"));
        }
        for (key, value) in &model.metadata {
            let shown: String = value.chars().take(LONGEST).collect();
            let more = if shown.len() < value.len() { "…" } else { "" };
            line("", format!("{key} = {shown}{more}"));
        }
    }
    let machine = &info.machine;
    line("machine", machine.engine.clone());
    if let Some(kernels) = &machine.kernels {
        line("  kernels", kernels.clone());
    }
    if let Some(bytes) = machine.batch_bytes {
        let free = machine
            .free_bytes
            .map_or(String::new(), |free| format!(", of {} free", mib(free)));
        line(
            "  batch",
            format!("of {} states: {bytes} bytes, {}{free}", machine.batch, mib(bytes)),
        );
    }
    line("  cores", machine.cores.map_or("unknown".to_owned(), |c| c.to_string()));
    line(
        "  memory",
        machine.memory_gib.map_or("unknown".to_owned(), |m| format!("{m} GiB")),
    );
    line("qcs", format!("{}, {}", machine.version, machine.build));
    text
}
