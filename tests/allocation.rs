//! Executing a plan allocates nothing. A test of its own, because it counts the allocations of the whole process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

mod small;

use qcs::engine::cpu::CpuEngine;
use qcs::engine::{Constants, Engine, State};
use qcs::methods::{Inputs, METHODS, Method, Preset};
use qcs::plan::{Program, Step};
use qcs::problem::{Ensemble, Measurements, Sensing, Structure};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_step_of_any_method_on_an_engine_allocates_nothing() {
    let prior = small::prior();
    let half = Some(Measurements::Share(0.5));
    let without_a_matrix = [
        Structure::Hadamard,
        Structure::Separable(Ensemble::IllConditioned { kappa: 10.0 }),
        Structure::Blocks(4),
    ]
    .map(|kind| small::problem_by(Sensing::Inputs(kind.draw(small::IMAGE, half, 1).unwrap())));
    let problems = without_a_matrix.into_iter().chain([small::problem()]);
    for (problem, kind) in problems.flat_map(|problem| METHODS.map(|kind| (problem.clone(), kind))) {
        let preset = Preset::find("mnist").unwrap();
        let method = Method::advised(kind, &prior, Some(preset), false).unwrap();
        let method = method.algorithm().unwrap();
        let given = Inputs {
            prior: &prior,
            problem: Some(&problem),
            chains: 1,
        };
        let passes = method.passes(given);
        // The baselines compute on the host and have no steps.
        assert_eq!(passes.is_empty(), kind.is_baseline(), "{}", kind.title());
        for pass in passes {
            let mut engine = CpuEngine::new(2);
            let compiled = pass.compile(3, engine.target());
            let steps: Vec<Step> = (0..21).map(|index| Step::plain(1.0, 0.01, index)).collect();
            let constants = Constants {
                steps: &steps,
                prior: Some(&prior),
                problem: Some(&problem),
                ..Constants::default()
            };
            let mut session = engine.session(&compiled.plan, constants).unwrap();
            let state = |image| State { image, chain: 0 };
            session.bind(&[state(0), state(1), state(2)]).unwrap();
            session.execute(Program::Start, 0).unwrap();
            session.execute(Program::Step, 0).unwrap();
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            for index in 1..20 {
                session.execute(Program::Step, index).unwrap();
            }
            session.execute(Program::Finish, 20).unwrap();
            assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before, "{}", kind.title());
        }
    }
}
