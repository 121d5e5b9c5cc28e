//! Tests of which a part runs in a process of its own: the driver and its environment variables belong to a process, and
//! the dynamic loader reads `LD_LIBRARY_PATH` when one starts.
//!
//! The part is a closure inside of the test. The process is the same test program, told to run this one test; when it
//! comes to the closure it runs it and ends there.

use std::any::type_name;
use std::ffi::OsString;
use std::panic::Location;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Library, link, search_first};

/// Tells the process which closure is its own: where [`Child::run`] is called.
const CLOSURE: &str = "QCS_CHILD";
/// The exit code of a process that has run its closure: neither that of success, which no test leaves too, nor of failure.
const DONE: i32 = 77;

/// A process to be: which libraries it finds, and its environment.
#[derive(Default)]
pub struct Child {
    libraries: Option<Vec<Library>>,
    environment: Vec<(String, OsString)>,
}

/// What a process left behind.
pub struct Ran {
    /// Its standard error and standard output
    pub said: String,
    /// The emulator's statistics as JSON, if it was used
    pub stats: String,
}

impl Child {
    pub fn new() -> Self {
        Self::default()
    }

    /// It finds the emulator in place of these libraries, and none of the others. Without this call it finds what the
    /// machine has.
    pub fn finding(mut self, libraries: &[Library]) -> Self {
        self.libraries = Some(libraries.to_vec());
        self
    }

    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Runs `body`, the one such closure written down in a test, in that process. What stands before it in the test runs
    /// there too; what the test owns by then is not dropped there.
    ///
    /// # Panics
    /// If the body does, with all that was said.
    #[track_caller]
    pub fn run<F: FnOnce()>(self, body: F) -> Ran {
        let here = Location::caller().to_string();
        match std::env::var(CLOSURE) {
            Ok(wanted) if wanted == here => {
                body();
                std::process::exit(DONE);
            }
            Ok(wanted) => panic!("a test has one closure, but {here} comes before {wanted}"),
            Err(_) => self.start(test_of::<F>(), here),
        }
    }

    fn start(self, test: &str, closure: String) -> Ran {
        let folder = Folder::new();
        let stats = folder.0.join("stats.json");
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command
            .args(["--exact", test, "--nocapture"])
            .env(CLOSURE, closure)
            .env("QCS_EMU_STATS", &stats)
            .envs(self.environment);
        if let Some(libraries) = self.libraries {
            let libraries_folder = folder.0.join("lib");
            link(&libraries_folder, &libraries).expect("the stand-ins can be linked");
            search_first(&mut command, &libraries_folder);
        }
        let output = command.output().expect("the process starts");
        let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        let ended = output.status;
        assert!(
            ended.code() == Some(DONE),
            "the process of {test} ended with {ended}\n{said}"
        );
        Ran {
            said: said.into_owned(),
            stats: std::fs::read_to_string(stats).unwrap_or_default(),
        }
    }
}

/// The name by which the test program knows the test in which a closure of type `F` is written down.
fn test_of<F>() -> &'static str {
    let path = type_name::<F>().trim_end_matches("::{{closure}}");
    let (_program, test) = path.split_once("::").expect("a closure is inside of a function");
    test
}

/// A folder that goes when the value does.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("qcs-child-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the folder can be made");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing can be done about a failure.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
