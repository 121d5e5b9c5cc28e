//! From flags to a configuration: explicit flags win over the configuration file or the preset, these over the model.

use std::path::Path;

use qcs::prior::{Prior, Schedule};
use qcs::run::{RunConfig, SamplerConfig, ScheduleConfig, load_prior};
use qcs::sampler::{Preset, Settings};
use qcs::{Error, Result};

use super::flags::{BatchChoice, MeasureFlags, MethodChoice, SamplerFlags, absolute};
use super::run::RunArgs;

/// The configuration that the command line asks for, and its model.
pub fn run_config(args: &RunArgs) -> Result<(RunConfig, Prior)> {
    let preset = args.preset.as_deref().map(Preset::find).transpose()?;
    let (mut config, prior) = match &args.config {
        Some(path) => {
            let mut config = RunConfig::read(path)?;
            apply_model(args, &mut config)?;
            let prior = load_prior(&config.model, config.shape()?)?;
            (config, prior)
        }
        None => from_defaults(args, preset)?,
    };
    apply_problem(args, &mut config, preset)?;
    if let Some(method) = args.method {
        config.methods = method.methods();
    }
    apply_sampler(&args.sampler, &mut config.schedule, &mut config.sampler)?;
    args.likelihood.apply(&mut config);
    if let Some(seed) = args.seed {
        config.sampler.seed = seed;
        if let Some(measure) = &mut config.measure {
            measure.seed = seed;
        }
    }
    if args.changes_the_files() {
        config.identity = None;
    }
    Ok((config, prior))
}

fn from_defaults(args: &RunArgs, preset: Option<&'static Preset>) -> Result<(RunConfig, Prior)> {
    let shape = args.model.shape.map(|shape| shape.to_string());
    let model = args
        .model
        .model
        .as_deref()
        .map_or(Ok(Prior::SHIPPED.to_owned()), |m| absolute(Path::new(m)))?;
    let prior = load_prior(&model, args.model.shape)?;
    let (schedule, sampler) = sampler_defaults(&prior, preset, &args.sampler)?;
    let config = RunConfig {
        model,
        shape,
        methods: MethodChoice::Ep.methods(),
        problem: None,
        count: None,
        measure: None,
        precision: None,
        schedule,
        sampler,
        identity: None,
    };
    Ok((config, prior))
}

fn apply_model(args: &RunArgs, config: &mut RunConfig) -> Result<()> {
    if let Some(model) = &args.model.model {
        config.model = absolute(Path::new(model))?;
        config.shape = None;
    }
    if let Some(shape) = args.model.shape {
        config.shape = Some(shape.to_string());
    }
    Ok(())
}

/// Where the problem comes from: a file, images that are measured, or what the configuration says.
fn apply_problem(args: &RunArgs, config: &mut RunConfig, preset: Option<&Preset>) -> Result<()> {
    if let Some(input) = &args.input {
        (config.problem, config.measure, config.count) = (None, None, None);
        if is_problem(input) {
            config.problem = Some(absolute(input)?.into());
        } else {
            config.measure = Some(MeasureFlags::defaults(input)?);
        }
    }
    if args.count.is_some() {
        config.count = args.count;
    }
    match &mut config.measure {
        Some(measure) => {
            args.measure.apply(measure, preset)?;
            if args.count.is_some() {
                measure.count = args.count;
            }
        }
        None if config.problem.is_none() => {
            return Err(Error::usage(
                "what should be reconstructed? Name a problem file, images, or --config FILE",
            ));
        }
        None => {
            if let Some(flag) = args.measure.given() {
                return Err(Error::usage(format!(
                    "{flag} is about measuring images, but a problem file holds its measurements already"
                )));
            }
        }
    }
    Ok(())
}

/// Whether a file is a problem rather than images: by its name or by its first bytes.
pub fn is_problem(path: &Path) -> bool {
    let named = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("safetensors"));
    // A safetensors file starts with the length of its header, eight bytes, and the header with a brace.
    let starts_so = || {
        use std::io::Read;
        let mut start = [0; 9];
        let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
        read.is_ok() && start[8] == b'{' && start[5..8] == [0; 3]
    };
    named || starts_so()
}

/// The sampler's settings before any flag: a named preset's, or the model's own levels and recommendations, completed by
/// the preset for images of its shape.
pub fn sampler_defaults(
    prior: &Prior,
    preset: Option<&'static Preset>,
    flags: &SamplerFlags,
) -> Result<(ScheduleConfig, SamplerConfig)> {
    let fitting = preset.or_else(|| Preset::of_shape(prior.network.image));
    let of_preset = |p: &Preset| ScheduleConfig::geometric(p.sigma_begin, p.sigma_end, p.levels);
    let schedule = match (preset, &prior.schedule, fitting) {
        (Some(preset), ..) => of_preset(preset),
        (None, Some(schedule), Some(fitting)) if alike(schedule, &fitting.schedule()) => of_preset(fitting),
        (None, Some(schedule), _) => ScheduleConfig::of(schedule),
        (None, None, Some(fitting)) => of_preset(fitting),
        (None, None, None) => match (flags.sigma_begin, flags.sigma_end, flags.levels) {
            (Some(begin), Some(end), Some(levels)) => ScheduleConfig::geometric(begin, end, levels),
            _ => {
                return Err(Error::usage(
                    "the model does not name its noise levels: give --sigma-begin, --sigma-end and --levels",
                ));
            }
        },
    };
    let settings = fitting.map_or_else(Settings::default, Preset::settings);
    let mut sampler = SamplerConfig::new(&settings);
    if preset.is_none() {
        let recommended = prior.recommended;
        sampler.steps_per_level = recommended.steps_per_level.unwrap_or(sampler.steps_per_level);
        sampler.step_scale = recommended.step_scale.unwrap_or(sampler.step_scale);
        sampler.momentum = recommended.momentum.unwrap_or(sampler.momentum);
        sampler.xi = recommended.xi.or(sampler.xi);
    }
    Ok((schedule, sampler))
}

/// Whether two schedules are the same but for rounding, as a training program's float32 levels and ours are.
fn alike(a: &Schedule, b: &Schedule) -> bool {
    let close = |(a, b): (&f32, &f32)| (a / b - 1.0).abs() < 1e-5;
    a.len() == b.len() && a.levels().iter().zip(b.levels()).all(close)
}

/// Overwrites what the flags name.
pub fn apply_sampler(flags: &SamplerFlags, schedule: &mut ScheduleConfig, sampler: &mut SamplerConfig) -> Result<()> {
    if flags.sigma_begin.is_some() || flags.sigma_end.is_some() || flags.levels.is_some() {
        let old = schedule.schedule()?;
        let ScheduleConfig {
            sigma_begin,
            sigma_end,
            levels,
            ..
        } = ScheduleConfig::ends_of(&old);
        *schedule = ScheduleConfig {
            sigma_begin: flags.sigma_begin.or(sigma_begin),
            sigma_end: flags.sigma_end.or(sigma_end),
            levels: flags.levels.or(levels),
            sigmas: None,
        };
    }
    sampler.steps_per_level = flags.steps_per_level.unwrap_or(sampler.steps_per_level);
    sampler.step_scale = flags.step_scale.unwrap_or(sampler.step_scale);
    sampler.momentum = flags.momentum.unwrap_or(sampler.momentum);
    if let Some(epsilon) = flags.epsilon {
        let end = schedule.sigma_end.unwrap_or(f64::from(schedule.schedule()?.end()));
        sampler.step_scale = epsilon / (end * end);
    }
    sampler.denoise = (sampler.denoise || flags.denoise) && !flags.no_denoise;
    // "auto" is resolved once the device is open.
    if let Some(BatchChoice::Of(batch)) = flags.batch {
        sampler.batch = batch;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use qcs::ImageShape;
    use qcs::prior::Ncsnv2;

    /// A model of MNIST's shape with three levels of its own, or without.
    fn model(own_levels: bool) -> Prior {
        let image = ImageShape::new(1, 28, 28);
        let mut prior = Prior::random(Ncsnv2 { ngf: 2, image }, 0);
        prior.schedule = own_levels.then(|| Schedule::new(vec![4.0, 2.0, 1.5]).unwrap());
        prior
    }

    #[test]
    fn flags_win_over_a_named_preset_and_that_over_the_model_and_that_over_the_shapes_preset() {
        let none = SamplerFlags::default();
        let celeba = Preset::find("celeba").unwrap();
        let (schedule, sampler) = sampler_defaults(&model(true), Some(celeba), &none).unwrap();
        assert_eq!(
            (schedule.sigma_begin, schedule.levels, sampler.xi),
            (Some(90.0), Some(500), Some(0.3))
        );
        let (schedule, sampler) = sampler_defaults(&model(true), None, &none).unwrap();
        assert_eq!((schedule.sigmas, sampler.xi), (Some(vec![4.0, 2.0, 1.5]), Some(0.5)));
        let mut advised = model(true);
        advised.recommended.xi = Some(0.8);
        assert_eq!(sampler_defaults(&advised, None, &none).unwrap().1.xi, Some(0.8));
        assert_eq!(sampler_defaults(&advised, Some(celeba), &none).unwrap().1.xi, Some(0.3));
        let (mut schedule, mut sampler) = sampler_defaults(&model(false), None, &none).unwrap();
        assert_eq!((schedule.sigma_begin, schedule.levels), (Some(50.0), Some(232)));

        let flags = SamplerFlags {
            levels: Some(60),
            epsilon: Some(1.5e-4),
            ..none
        };
        apply_sampler(&flags, &mut schedule, &mut sampler).unwrap();
        assert_eq!((schedule.sigma_begin, schedule.levels), (Some(50.0), Some(60)));
        assert!(
            (sampler.step_scale - 1.5).abs() < 1e-12,
            "epsilon is step_scale·beta_T²"
        );
    }

    #[test]
    fn the_demo_samples_as_a_run_with_the_shipped_prior_does() {
        let (schedule, sampler) = sampler_defaults(&Prior::shipped().unwrap(), None, &SamplerFlags::default()).unwrap();
        let demo = qcs::run::demo::config();
        assert_eq!(schedule, demo.schedule);
        assert_eq!(
            (
                sampler.steps_per_level,
                sampler.step_scale,
                sampler.momentum,
                sampler.xi
            ),
            (
                demo.sampler.steps_per_level,
                demo.sampler.step_scale,
                demo.sampler.momentum,
                demo.sampler.xi
            )
        );
    }

    #[test]
    fn a_model_of_unknown_shape_without_levels_asks_for_them() {
        let mut prior = Prior::random(
            Ncsnv2 {
                ngf: 2,
                image: ImageShape::new(1, 6, 6),
            },
            0,
        );
        prior.schedule = None;
        assert!(sampler_defaults(&prior, None, &SamplerFlags::default()).is_err());
        let flags = SamplerFlags {
            sigma_begin: Some(3.0),
            sigma_end: Some(0.1),
            levels: Some(5),
            ..SamplerFlags::default()
        };
        assert_eq!(sampler_defaults(&prior, None, &flags).unwrap().0.levels, Some(5));
    }
}
