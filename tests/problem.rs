//! Problem files: what is written comes back bit for bit, and nothing in a file can do harm.

use std::path::{Path, PathBuf};

use qcs::problem::{Cells, Ensemble, Matrix, Origin, Problem, Quantiser, Sensing, Simulation, Spectrum};
use qcs::{Error, ImageShape, Images};
use serde_json::{Value, json};

const SHAPE: ImageShape = ImageShape::new(2, 2, 3);

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("problem.safetensors")
    }

    fn read(&self, bytes: &[u8]) -> Result<Problem, Error> {
        std::fs::write(self.path(), bytes).unwrap();
        Problem::read(self.path())
    }

    /// The message with which a file is refused: one line that names the file.
    fn refusal(&self, bytes: &[u8]) -> String {
        let error = self.read(bytes).expect_err("must be refused");
        assert!(matches!(error, Error::BadFile { .. }), "{error:?}");
        assert_eq!(error.exit_code(), 3);
        let message = error.to_string();
        assert!(
            message.contains("problem.safetensors") && message.lines().count() == 1,
            "{message}"
        );
        message
    }
}

fn simulate(ensemble: Ensemble, bits: u8, sigma: f64) -> Problem {
    let pixels = (0..3 * SHAPE.len()).map(|i| (i * 29 % 53) as f32 / 52.0).collect();
    let settings = Simulation {
        bits,
        step: None,
        sigma,
        mean_square: 0.3,
        dither: false,
        seed: u64::MAX - 1,
    };
    Problem::simulate(Images::new(SHAPE, pixels), Sensing::Drawn { ensemble, m: 5 }, &settings).unwrap()
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn assert_same(one: &Problem, other: &Problem) {
    assert_eq!(one.a(), other.a());
    assert_eq!(bits(one.cells().lower()), bits(other.cells().lower()));
    assert_eq!(bits(one.cells().upper()), bits(other.cells().upper()));
    assert_eq!(one.sigma().to_bits(), other.sigma().to_bits());
    assert_eq!(one.shape(), other.shape());
    assert_eq!(one.quantiser(), other.quantiser());
    assert_eq!(one.truth(), other.truth());
    assert_eq!(one.origin(), other.origin());
    assert_eq!(one.known_spectrum(), other.known_spectrum());
}

#[test]
fn a_problem_comes_back_from_its_file_bit_for_bit() {
    let folder = Folder::new();
    for (ensemble, bits, sigma) in [
        (Ensemble::Gaussian, 1, 0.05),
        (Ensemble::RowOrthogonal, 2, 0.0),
        (Ensemble::IllConditioned { kappa: 1000.0 / 3.0 }, 3, 0.1 + 0.2),
        (Ensemble::Correlated { rho: 0.1 + 0.2 }, 8, 1e-300),
    ] {
        let problem = simulate(ensemble, bits, sigma);
        problem.write(folder.path()).unwrap();
        let first = std::fs::read(folder.path()).unwrap();
        let back = Problem::read(folder.path()).unwrap();
        assert_same(&back, &problem);
        back.write(folder.path()).unwrap();
        assert_eq!(
            std::fs::read(folder.path()).unwrap(),
            first,
            "equal problems are equal files"
        );
    }
}

#[test]
fn a_computed_spectrum_is_stored_so_that_no_run_computes_it_again() {
    let folder = Folder::new();
    let problem = simulate(Ensemble::Gaussian, 1, 0.05);
    problem.write(folder.path()).unwrap();
    assert!(Problem::read(folder.path()).unwrap().known_spectrum().is_none());
    let spectrum = problem.spectrum().unwrap().clone();
    problem.write(folder.path()).unwrap();
    assert_eq!(Problem::read(folder.path()).unwrap().known_spectrum(), Some(&spectrum));
}

#[test]
fn a_bare_problem_of_single_precision_keeps_its_precision() {
    let folder = Folder::new();
    let a = Matrix::from_f32(2, 3, vec![0.1, 0.2, 0.3, -0.4, 0.5, -0.6]).unwrap();
    let inf = f64::INFINITY;
    let cells = Cells::new(2, vec![-inf, -inf, 0.25, 0.0], vec![inf, 0.5, 0.3, inf]).unwrap();
    let problem = Problem::new(a, cells, 0.0).unwrap();
    problem.write(folder.path()).unwrap();
    let back = Problem::read(folder.path()).unwrap();
    assert_same(&back, &problem);
    assert_eq!((back.shape(), back.truth(), back.origin()), (None, None, None));
}

/// A file made by hand, as another program would: tensors of the given type, shape and values.
#[derive(Clone)]
struct Draft {
    metadata: Value,
    tensors: Vec<(&'static str, &'static str, Vec<usize>, Vec<f64>)>,
}

impl Draft {
    /// A = [[1, 2, 2], [2, 0, 1]], two images, all optional parts included.
    fn good() -> Self {
        let (inf, a) = (f64::INFINITY, vec![1.0, 2.0, 2.0, 2.0, 0.0, 1.0]);
        let spectrum = Spectrum::of(&Matrix::from_f64(2, 3, a.clone()).unwrap()).unwrap();
        Self {
            metadata: json!({ "sigma": "0.5", "shape": "1, 1, 3", "bits": "2", "step": "0.25" }),
            tensors: vec![
                ("A", "F64", vec![2, 3], a),
                ("lower", "F32", vec![2, 2], vec![-inf, 0.0, 0.25, -inf]),
                ("upper", "F64", vec![2, 2], vec![0.0, 0.25, inf, inf]),
                ("truth", "F64", vec![2, 1, 1, 3], vec![0.0, 0.5, 1.0, 1.0, 0.5, 0.0]),
                ("eigenvalues", "F64", vec![2], spectrum.eigenvalues),
                ("U", "F64", vec![2, 2], spectrum.u.unwrap()),
                ("remark", "F32", vec![1], vec![7.0]),
            ],
        }
    }

    fn tensor(&mut self, name: &str) -> &mut (&'static str, &'static str, Vec<usize>, Vec<f64>) {
        self.tensors.iter_mut().find(|tensor| tensor.0 == name).unwrap()
    }

    fn without(mut self, name: &str) -> Self {
        self.tensors.retain(|tensor| tensor.0 != name);
        self
    }

    fn change(mut self, name: &str, change: impl Fn(&mut Vec<usize>, &mut Vec<f64>)) -> Self {
        let (_, _, shape, values) = self.tensor(name);
        change(shape, values);
        self
    }

    fn meta(mut self, key: &str, value: Value) -> Self {
        self.metadata[key] = value;
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut header = json!({ "__metadata__": self.metadata });
        let mut data = Vec::new();
        for (name, dtype, shape, values) in &self.tensors {
            let start = data.len();
            for value in values {
                match *dtype {
                    "F32" => data.extend((*value as f32).to_le_bytes()),
                    "F64" => data.extend(value.to_le_bytes()),
                    "I64" => data.extend((*value as i64).to_le_bytes()),
                    other => panic!("{other}"),
                }
            }
            header[*name] = json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, data.len()] });
        }
        with_header(&header.to_string(), &data)
    }
}

fn with_header(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

#[test]
fn a_file_of_another_program_is_read() {
    let problem = Folder::new().read(&Draft::good().bytes()).unwrap();
    assert_eq!(
        problem.a(),
        &Matrix::from_f64(2, 3, vec![1.0, 2.0, 2.0, 2.0, 0.0, 1.0])
            .unwrap()
            .into()
    );
    assert_eq!(
        problem.cells().image(1),
        (&[0.25, f64::NEG_INFINITY][..], &[f64::INFINITY; 2][..])
    );
    assert_eq!(problem.sigma(), 0.5);
    assert_eq!(problem.shape(), Some(ImageShape::new(1, 1, 3)));
    assert_eq!(problem.quantiser(), Some(Quantiser::Uniform { bits: 2, step: 0.25 }));
    assert_eq!(problem.truth().unwrap().image(1), [1.0, 0.5, 0.0]);
    assert!(problem.known_spectrum().is_some());
}

#[test]
fn only_a_lower_upper_and_sigma_are_needed() {
    let mut draft = Draft::good();
    for name in ["truth", "eigenvalues", "U", "remark"] {
        draft = draft.without(name);
    }
    draft.metadata = json!({ "sigma": "0" });
    let problem = Folder::new().read(&draft.bytes()).unwrap();
    assert_eq!(
        (problem.sigma(), problem.shape(), problem.quantiser()),
        (0.0, None, None)
    );
}

#[test]
fn the_shape_comes_from_the_truth_when_the_metadata_have_none() {
    let mut draft = Draft::good();
    draft.metadata = json!({ "sigma": "0.1" });
    assert_eq!(
        Folder::new().read(&draft.bytes()).unwrap().shape(),
        Some(ImageShape::new(1, 1, 3))
    );
}

#[test]
fn what_a_file_lacks_or_gets_wrong_is_named() {
    let folder = Folder::new();
    let good = Draft::good;
    let nan = f64::NAN;
    let mut no_metadata = good();
    no_metadata.metadata = json!({});
    let mut integers = good();
    integers.tensor("A").1 = "I64";
    let mut wide = good();
    wide.tensor("A").2 = vec![3, 2];
    let mut flat = good();
    flat.tensor("A").2 = vec![6];
    let reshaped = |name: &str, to: &[usize]| good().change(name, |shape, _| *shape = to.to_vec());
    for (draft, clue) in [
        (good().without("A"), "no tensor `A`"),
        (good().without("lower"), "no tensor `lower`"),
        (good().without("upper"), "no tensor `upper`"),
        (no_metadata, "no `sigma`"),
        (integers, "`A` is of type I64"),
        (wide, "both must be [B, 3]"),
        (flat, "`A` has shape [6]"),
        (reshaped("lower", &[1, 4]), "lower is [1, 4]"),
        (reshaped("upper", &[4, 1]), "upper [4, 1]"),
        (reshaped("upper", &[2, 2, 1]), "`upper` has shape [2, 2, 1]"),
        (reshaped("truth", &[1, 2, 1, 3]), "1 true images but measurements of 2"),
        (reshaped("truth", &[2, 3, 1, 1]), "contradicts"),
        (reshaped("truth", &[6]), "`truth` has shape"),
        (reshaped("U", &[4]), "`U` has shape"),
        (good().change("A", |_, a| a[4] = nan), "row 1, column 1"),
        (good().change("A", |_, a| a.fill(0.0)), "scale A"),
        (good().change("lower", |_, v| v[1] = 0.25), "measurement 1 of image 0"),
        (good().change("upper", |_, v| v[2] = nan), "measurement 0 of image 1"),
        (good().change("truth", |_, v| v[3] = nan), "image 1"),
        (good().change("U", |_, v| v[0] *= 1.01), "U is not orthogonal"),
        (
            good().change("eigenvalues", |_, v| v[0] *= 2.0),
            "remove `U` and `eigenvalues`",
        ),
        (good().change("eigenvalues", |_, v| v[0] = -1.0), "negative"),
        (good().without("U"), "not those of A"),
        (good().meta("sigma", json!("-0.1")), "sigma is -0.1"),
        (good().meta("sigma", json!("NaN")), "sigma is NaN"),
        (good().meta("sigma", json!("inf")), "sigma is inf"),
        (good().meta("sigma", json!("small")), "`sigma` is \"small\""),
        (good().meta("sigma", json!(0.5)), "safetensors"),
        (good().meta("shape", json!("1,4")), "C,H,W"),
        (good().meta("shape", json!("1,2,2")), "N = 3"),
        (good().meta("shape", json!("1,1,-3")), "C,H,W"),
        (good().meta("bits", json!("9")), "9 bits"),
        (good().meta("bits", json!("300")), "`bits` is"),
        (good().meta("step", json!("0")), "step is 0"),
        (good().meta("seed", json!("x")), "`seed` is"),
        (
            good().meta("seed", json!("1")).meta("matrix", json!("{}")),
            "`matrix` is no ensemble",
        ),
    ] {
        let message = folder.refusal(&draft.bytes());
        assert!(message.contains(clue), "expected {clue:?} in: {message}");
    }
}

#[test]
fn empty_tensors_are_refused() {
    let folder = Folder::new();
    let empty = |name: &str, to: &[usize]| {
        Draft::good().change(name, |shape, values| {
            *shape = to.to_vec();
            values.clear();
        })
    };
    let no_images = empty("lower", &[0, 2]).change("upper", |shape, values| {
        *shape = vec![0, 2];
        values.clear();
    });
    folder.refusal(&no_images.bytes());
    folder.refusal(&empty("A", &[0, 3]).bytes());
    folder.refusal(&empty("A", &[2, 0]).bytes());
    folder.refusal(&empty("truth", &[0, 1, 1, 3]).bytes());
    folder.refusal(&empty("truth", &[2, 0, 1, 3]).bytes());
}

#[test]
fn lies_about_lengths_and_offsets_are_refused() {
    let folder = Folder::new();
    let good = Draft::good().bytes();
    for length in [0, 1, 7, good.len() as u64, 1 << 20, 1 << 40, u64::MAX - 7, u64::MAX] {
        let lie = [&length.to_le_bytes()[..], &good[8..]].concat();
        folder.refusal(&lie);
    }
    let tensor = |from: u64, to: u64, shape: Value| {
        let entry = json!({ "dtype": "F64", "shape": shape, "data_offsets": [from, to] });
        let header = json!({
            "__metadata__": { "sigma": "1" },
            "A": entry,
            "lower": { "dtype": "F64", "shape": [1, 1], "data_offsets": [8, 16] },
            "upper": { "dtype": "F64", "shape": [1, 1], "data_offsets": [16, 24] },
        });
        let data = [1.0f64, 0.0, 1.0].map(f64::to_le_bytes).concat();
        with_header(&header.to_string(), &data)
    };
    assert!(folder.read(&tensor(0, 8, json!([1, 1]))).is_ok(), "the honest file");
    for (from, to, shape) in [
        (0, 16, json!([1, 2])),
        (8, 16, json!([1, 1])),
        (8, 0, json!([1, 1])),
        (1, 9, json!([1, 1])),
        (0, 8, json!([1, 2])),
        (0, 8, json!([1u64 << 61, 8])),
        (0, u64::MAX, json!([1, 1])),
        (u64::MAX - 7, u64::MAX, json!([1, 1])),
        (24, 32, json!([1, 1])),
        (0, 8, json!([-1, -1])),
    ] {
        folder.refusal(&tensor(from, to, shape));
    }
    for bytes in [&b""[..], b"\x08", b"not a safetensors file at all", &[0xff; 4096]] {
        folder.refusal(bytes);
    }
}

#[test]
fn a_refusal_never_repeats_control_characters_or_a_flood_of_text() {
    let folder = Folder::new();
    let flood = "\n\u{1b}[31m".repeat(100_000);
    for key in ["sigma", "shape", "bits", "seed"] {
        let message = folder.refusal(&Draft::good().meta(key, json!(flood)).bytes());
        assert!(message.len() < 1000 && !message.contains('\u{1b}'), "{message}");
    }
    let unknown = json!(json!({ "ensemble": flood }).to_string());
    let draft = Draft::good().meta("seed", json!("1")).meta("matrix", unknown);
    let message = folder.refusal(&draft.bytes());
    assert!(message.len() < 1000 && !message.contains('\u{1b}'), "{message}");
}

#[test]
fn a_matrix_is_read_from_the_tensor_a_or_from_the_only_one() {
    let folder = Folder::new();
    let read = |draft: &Draft| {
        std::fs::write(folder.path(), draft.bytes()).unwrap();
        Matrix::read_safetensors(folder.path())
    };
    let expected = Matrix::from_f64(2, 3, vec![1.0, 2.0, 2.0, 2.0, 0.0, 1.0]).unwrap();
    assert_eq!(read(&Draft::good()).unwrap(), expected);
    let mut only = Draft::good();
    only.tensors.truncate(1);
    only.tensors[0].0 = "weights";
    assert_eq!(read(&only).unwrap(), expected);
    let mut nameless = Draft::good();
    nameless.tensor("A").0 = "B";
    let message = read(&nameless).unwrap_err().to_string();
    assert!(message.contains("no tensor `A`"), "{message}");
    let infinite = Draft::good().change("A", |_, a| a[2] = f64::INFINITY);
    assert_eq!(read(&infinite).unwrap_err().exit_code(), 3);
}

#[test]
fn every_truncation_is_refused() {
    let folder = Folder::new();
    let good = Draft::good().bytes();
    for length in 0..good.len() {
        folder.refusal(&good[..length]);
    }
    folder.refusal(&[&good[..], b"\0"].concat());
}

/// Any one byte changed, in the header or in the data: refused or read, and what is read keeps its promises.
#[test]
fn no_single_corrupt_byte_does_harm() {
    let folder = Folder::new();
    simulate(Ensemble::IllConditioned { kappa: 10.0 }, 3, 0.1)
        .write(folder.path())
        .unwrap();
    let good = std::fs::read(folder.path()).unwrap();
    let header = 8 + u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    let mut bytes = good.clone();
    for place in 0..good.len() {
        let flips: &[u8] = if place < header { &[0x01, 0x04, 0x80] } else { &[0x80] };
        for flip in flips {
            bytes[place] ^= flip;
            match folder.read(&bytes) {
                Ok(problem) => {
                    let (lower, upper) = (problem.cells().lower(), problem.cells().upper());
                    assert!(lower.iter().zip(upper).all(|(lo, up)| lo < up));
                    assert!(problem.a().matrix().unwrap().to_f64().iter().all(|a| a.is_finite()));
                    assert!(problem.sigma() >= 0.0 && problem.sigma2_floored() > 0.0);
                    assert!(problem.spectrum().is_ok());
                }
                Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error}"),
            }
            bytes[place] = good[place];
        }
    }
}

#[test]
fn a_file_that_cannot_be_opened_is_named() {
    let folder = Folder::new();
    for path in [
        folder.path(),
        folder.0.path().to_path_buf(),
        Path::new("/nowhere/p").to_path_buf(),
    ] {
        let error = Problem::read(&path).unwrap_err();
        assert_eq!(error.exit_code(), 3, "{error}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
    let unwritable = simulate(Ensemble::Gaussian, 1, 0.1).write("/nowhere/p").unwrap_err();
    assert_eq!(unwritable.exit_code(), 1, "{unwritable}");
}

#[test]
fn the_record_of_a_users_matrix_has_a_seed_and_no_ensemble() {
    let folder = Folder::new();
    let a = simulate(Ensemble::Gaussian, 1, 0.1).a().clone();
    let settings = Simulation {
        bits: 1,
        step: None,
        sigma: 0.1,
        mean_square: 0.3,
        dither: false,
        seed: 9,
    };
    let images = Images::new(SHAPE, vec![0.5; SHAPE.len()]);
    Problem::simulate(images, Sensing::Inputs(a), &settings)
        .unwrap()
        .write(folder.path())
        .unwrap();
    let origin = Problem::read(folder.path()).unwrap().origin();
    assert_eq!(
        origin,
        Some(Origin {
            ensemble: None,
            seed: 9
        })
    );
}
