//! Executing a plan allocates nothing. A test of its own, because it counts the allocations of the whole process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use qcs::engine::cpu::CpuEngine;
use qcs::engine::{Constants, Engine, State, Step};
use qcs::plan::Program;
use qcs::prior::{Ncsnv2, Prior};
use qcs::problem::{Ensemble, Problem, Sensing, Simulation};
use qcs::sampler::{SamplerPlan, Settings};
use qcs::{ImageShape, Images};

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
fn a_langevin_step_allocates_nothing() {
    let image = ImageShape::new(3, 8, 8);
    let prior = Prior::random(Ncsnv2 { ngf: 8, image }, 0);
    let simulation = Simulation {
        bits: 3,
        step: None,
        sigma: 0.05,
        mean_square: 0.25,
        seed: 0,
    };
    let sensing = Sensing::Drawn {
        ensemble: Ensemble::IllConditioned { kappa: 10.0 },
        m: 50,
    };
    let images = Images::new(image, vec![0.5; 3 * image.len()]);
    let problem = Problem::simulate(images, sensing, &simulation).unwrap();
    let mut engine = CpuEngine::new(2);
    let settings = Settings::default();
    let compiled = SamplerPlan::new(&prior.network, Some(&problem), &settings, 3, engine.target());
    let step = |index| Step::plain(1.0, 0.01, index);
    let steps: Vec<Step> = (0..21).map(step).collect();
    let constants = Constants {
        steps: &steps,
        prior: Some(&prior),
        problem: Some(&problem),
        seed: 0,
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
    session.execute(Program::Denoise, 20).unwrap();
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before);
}
