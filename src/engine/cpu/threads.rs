//! A fork-join pool: `run(n, task)` calls `task(0) … task(n − 1)` on all threads and returns when all are done.
//!
//! Nothing is allocated per call. Workers spin for a moment before they sleep, because the next op usually follows
//! within microseconds. Which thread runs which task is left to chance, so a task's result must not depend on it.
//!
//! A call waits for tasks, not for threads: on a busy machine a worker may get no core for milliseconds, and then the
//! others do its share. To wait for every worker would make each of a step's many short ops as slow as that.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

/// Spins of a waiting thread before it sleeps: some tens of microseconds.
const SPINS: usize = 4000;

/// Called with the number of the thread and that of the task.
type Task = dyn Fn(usize, usize) + Sync;

/// Work for all threads, valid until each of its tasks has ended.
#[derive(Clone, Copy)]
struct Job {
    task: *const Task,
    count: u32,
    generation: u32,
}

// SAFETY: the pointer is only followed for a task that was claimed and has not ended; until then `Threads::run` does
// not return, and the task is borrowed.
unsafe impl Send for Job {}

struct Shared {
    job: Mutex<Option<Job>>,
    /// The job's generation in the upper half, its next task in the lower: a thread that comes late to a job sees that
    /// it is over, and cannot take a task of the next one for its own.
    ticket: AtomicU64,
    /// Tasks of the job that have not ended
    pending: AtomicUsize,
    wake: Condvar,
    done: Condvar,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    quit: AtomicBool,
}

/// A pool of threads; the calling thread is one of them.
pub struct Threads {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl Threads {
    /// `count` threads in all; 0 means as many as the machine runs at once.
    pub fn new(count: usize) -> Self {
        let available = || std::thread::available_parallelism().map_or(1, |n| n.get());
        let count = if count == 0 { available() } else { count };
        let shared = Arc::new(Shared {
            job: Mutex::new(None),
            ticket: AtomicU64::new(0),
            pending: AtomicUsize::new(0),
            wake: Condvar::new(),
            done: Condvar::new(),
            panic: Mutex::new(None),
            quit: AtomicBool::new(false),
        });
        let spawn = |thread| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.work(thread))
        };
        let workers = (1..count).map(spawn).collect();
        Self { shared, workers }
    }

    pub fn count(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `task` with every number below `count`, and returns when all calls have.
    ///
    /// Needs `&mut self`: jobs neither nest nor overlap. A panic in a task is raised here.
    pub fn run(&mut self, count: usize, task: &(dyn Fn(usize) + Sync)) {
        self.run_on(count, &|_, index| task(index));
    }

    /// The same with the number of the thread in front, for tasks that need memory of their own.
    pub fn run_on(&mut self, count: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        if self.workers.is_empty() || count <= 1 {
            (0..count).for_each(|index| task(0, index));
            return;
        }
        let shared = &*self.shared;
        // SAFETY: only the lifetime is changed; this function does not return before every task has ended.
        let task: *const Task =
            unsafe { std::mem::transmute::<*const (dyn Fn(usize, usize) + Sync), *const Task>(task) };
        let job = Job {
            task,
            count: u32::try_from(count).expect("an op has fewer than 2^32 tasks"),
            generation: shared.generation().wrapping_add(1),
        };
        shared.pending.store(count, Ordering::Relaxed);
        {
            let mut slot = shared.job.lock().expect("no thread panics while it holds the job");
            *slot = Some(job);
            shared.ticket.store(u64::from(job.generation) << 32, Ordering::Release);
            shared.wake.notify_all();
        }
        shared.take_tasks(0, job);
        shared.wait_for_tasks();
        let panic = shared.panic.lock().expect("nothing panics under this lock").take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::Release);
        {
            let _slot = self.shared.job.lock();
            self.shared.wake.notify_all();
        }
        for worker in self.workers.drain(..) {
            // A worker ends only by `quit`; its tasks' panics were caught.
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn generation(&self) -> u32 {
        (self.ticket.load(Ordering::Acquire) >> 32) as u32
    }

    fn work(&self, thread: usize) {
        let mut seen = 0;
        loop {
            let nothing_new = || self.generation() == seen && !self.quit.load(Ordering::Acquire);
            let mut spins = 0;
            while nothing_new() && spins < SPINS {
                std::hint::spin_loop();
                spins += 1;
            }
            let job = {
                let mut slot = self.job.lock().expect("no thread panics while it holds the job");
                while nothing_new() {
                    slot = self.wake.wait(slot).expect("no thread panics while it holds the job");
                }
                if self.quit.load(Ordering::Acquire) {
                    return;
                }
                slot.expect("a new generation comes with a job")
            };
            seen = job.generation;
            self.take_tasks(thread, job);
        }
    }

    /// The next task of the job, unless all are taken or the job is over.
    fn claim(&self, job: Job) -> Option<usize> {
        let mut ticket = self.ticket.load(Ordering::Acquire);
        loop {
            let next = ticket as u32;
            if (ticket >> 32) as u32 != job.generation || next >= job.count {
                return None;
            }
            let taken = self
                .ticket
                .compare_exchange_weak(ticket, ticket + 1, Ordering::AcqRel, Ordering::Acquire);
            match taken {
                Ok(_) => return Some(next as usize),
                Err(now) => ticket = now,
            }
        }
    }

    fn take_tasks(&self, thread: usize, job: Job) {
        while let Some(index) = self.claim(job) {
            // SAFETY: the task is claimed and counts as pending, so `Threads::run` is still there and borrows it.
            let task = unsafe { &*job.task };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| task(thread, index))) {
                *self.panic.lock().expect("nothing panics under this lock") = Some(panic);
            }
            if self.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
                let _slot = self.job.lock();
                self.done.notify_one();
            }
        }
    }

    fn wait_for_tasks(&self) {
        let mut spins = 0;
        while self.pending.load(Ordering::Acquire) != 0 && spins < SPINS {
            std::hint::spin_loop();
            spins += 1;
        }
        if self.pending.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut slot = self.job.lock().expect("no thread panics while it holds the job");
        while self.pending.load(Ordering::Acquire) != 0 {
            slot = self.done.wait(slot).expect("no thread panics while it holds the job");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_exactly_once() {
        for count in [1, 2, 5] {
            let mut threads = Threads::new(count);
            for tasks in [0, 1, 2, 3, 100, 1000] {
                let hits: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                threads.run(tasks, &|i| {
                    hits[i].fetch_add(1, Ordering::Relaxed);
                });
                assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn many_short_jobs_in_a_row_all_finish() {
        let mut threads = Threads::new(3);
        let sum = AtomicUsize::new(0);
        for _ in 0..5000 {
            threads.run(4, &|i| {
                sum.fetch_add(i, Ordering::Relaxed);
            });
        }
        assert_eq!(sum.into_inner(), 5000 * 6);
    }

    #[test]
    fn tasks_are_told_apart_from_threads() {
        let mut threads = Threads::new(3);
        for _ in 0..200 {
            let hits: Vec<AtomicUsize> = (0..50).map(|_| AtomicUsize::new(0)).collect();
            threads.run_on(50, &|thread, index| {
                assert!(thread < 3);
                hits[index].fetch_add(1, Ordering::Relaxed);
            });
            assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn a_panic_in_a_task_reaches_the_caller_and_the_pool_lives_on() {
        let mut threads = Threads::new(2);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            threads.run(8, &|i| assert_ne!(i, 3, "task three"));
        }));
        assert!(caught.is_err());
        let sum = AtomicUsize::new(0);
        threads.run(8, &|i| {
            sum.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 28);
    }
}
