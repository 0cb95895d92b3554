//! A fixed set of threads that work through the parts of one kernel after another.
//!
//! A step of training runs hundreds of kernels of some milliseconds and less, one behind the other,
//! so what matters is how fast the threads come together: waiting threads spin for a while, and
//! sleep only when nothing comes.
//! Parts are cut by the shape of the work and never by the number of threads, and each writes its
//! own outputs, so results do not depend on which thread does what.

#![expect(unsafe_code, reason = "a job is shared with threads that outlive it")]

use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Turns of the waiting loop before a thread sleeps: about 100 µs.
const SPINS: u32 = 20_000;
/// The state of the pool is `job number << 17 | OPEN | workers inside`.
const OPEN: u64 = 1 << 16;
const NEXT: u64 = 1 << 17;

/// A fixed number of threads, the caller's among them.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use pleach_tensor::Pool;
///
/// let mut pool = Pool::new(2.try_into().unwrap());
/// let sum = AtomicUsize::new(0);
/// pool.run(100, &|part| { sum.fetch_add(part, Ordering::Relaxed); });
/// assert_eq!(sum.into_inner(), 4950);
/// ```
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    state: AtomicU64,
    job: UnsafeCell<Job>,
    /// For each thread the next part of its share that nobody has taken.
    next: Vec<Next>,
    asleep: Mutex<usize>,
    wake: Condvar,
    sleepers: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// A counter on a cache line of its own, and on its neighbour that is fetched with it.
#[derive(Default)]
#[repr(align(128))]
struct Next(AtomicUsize);

/// What all threads do at the moment.
#[derive(Clone, Copy)]
struct Job {
    work: *const (dyn Fn(usize) + Sync),
    parts: usize,
    end: bool,
}

// SAFETY: `job` is written by the owner of the pool only while the state is closed and nobody is
// inside, and read by workers only while they are counted as inside an open state; `work` is
// `Sync`, and outlives the call that published it.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Pool {
    /// Starts `threads - 1` threads; the one that calls [`run`](Pool::run) is the other.
    ///
    /// # Panics
    /// If the system refuses a thread.
    pub fn new(threads: NonZeroUsize) -> Pool {
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            job: UnsafeCell::new(Job { work: &nothing, parts: 0, end: false }),
            next: (0..threads.get()).map(|_| Next::default()).collect(),
            asleep: Mutex::new(0),
            wake: Condvar::new(),
            sleepers: AtomicUsize::new(0),
            panic: Mutex::new(None),
        });
        let workers = (1..threads.get())
            .map(|index| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name(format!("pleach-{index}"))
                    .spawn(move || shared.work(index))
                    .expect("the system gives a thread")
            })
            .collect();
        Pool { shared, workers }
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `work` once for every number below `parts`, on all threads, and returns when all have
    /// returned. Allocates nothing.
    ///
    /// # Panics
    /// If `work` does, after all threads have left it.
    pub fn run(&mut self, parts: usize, work: &(dyn Fn(usize) + Sync)) {
        if self.workers.is_empty() || parts <= 1 {
            (0..parts).for_each(work);
            return;
        }
        self.publish(Job { work: erase(work), parts, end: false });
        self.shared.take_parts(0, work, parts);
        self.shared.close();
        let panic = self.shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Lets the workers in. The state is closed and nobody is inside: `run` saw to it.
    fn publish(&mut self, job: Job) {
        let shared = &*self.shared;
        // SAFETY: the state is closed, so no worker reads the job.
        unsafe { *shared.job.get() = job };
        for (thread, next) in shared.next.iter().enumerate() {
            next.0.store(shared.share(thread, job.parts), Ordering::Relaxed);
        }
        let number = shared.state.load(Ordering::Relaxed) / NEXT;
        shared.state.store((number + 1) * NEXT + OPEN, Ordering::SeqCst);
        if shared.sleepers.load(Ordering::SeqCst) > 0 {
            let _guard = shared.asleep.lock().unwrap_or_else(PoisonError::into_inner);
            shared.wake.notify_all();
        }
    }
}

/// What is done when there is nothing to do.
fn nothing(_: usize) {}

/// Forgets how long the closure lives.
fn erase<'a>(work: &'a (dyn Fn(usize) + Sync + 'a)) -> *const (dyn Fn(usize) + Sync) {
    // SAFETY: only the lifetime changes; `run` returns after every thread has left the closure.
    unsafe { std::mem::transmute::<&'a (dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(work) }
}

impl Shared {
    /// Where the share of a thread begins. Threads begin with shares of their own, so that one finds
    /// in its cache what it left there in the kernel before.
    fn share(&self, thread: usize, parts: usize) -> usize {
        thread * parts / self.next.len()
    }

    /// Takes one part after another, its own and then those of others, until none is left; a panic
    /// is kept for the owner.
    fn take_parts(&self, thread: usize, work: &(dyn Fn(usize) + Sync), parts: usize) {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let threads = self.next.len();
            for of in (thread..threads).chain(0..thread) {
                let end = self.share(of + 1, parts);
                loop {
                    let part = self.next[of].0.fetch_add(1, Ordering::Relaxed);
                    if part >= end {
                        break;
                    }
                    work(part);
                }
            }
        }));
        if let Err(panic) = outcome {
            for next in &self.next {
                next.0.store(parts, Ordering::Relaxed);
            }
            *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
        }
    }

    /// Lets nobody in any more, and waits for those who are inside.
    fn close(&self) {
        let mut state = self.state.fetch_and(!OPEN, Ordering::Acquire) & !OPEN;
        while !state.is_multiple_of(NEXT) {
            std::hint::spin_loop();
            state = self.state.load(Ordering::Acquire);
        }
    }

    /// The life of a worker.
    fn work(&self, thread: usize) {
        let mut seen = 0;
        loop {
            let state = self.wait(seen);
            seen = state / NEXT;
            // Counted as inside, or too late for this job.
            let entered = self.state.compare_exchange(state, state + 1, Ordering::Acquire, Ordering::Relaxed);
            if let Err(now) = entered {
                if now / NEXT == seen && now & OPEN != 0 {
                    seen -= 1; // another worker came first; try again
                }
                continue;
            }
            // SAFETY: the state is open and counts this worker, so the owner waits for it before
            // it changes the job or returns from `run`.
            let job = unsafe { *self.job.get() };
            if !job.end {
                // SAFETY: as above.
                self.take_parts(thread, unsafe { &*job.work }, job.parts);
            }
            self.state.fetch_sub(1, Ordering::Release);
            if job.end {
                return;
            }
        }
    }

    /// Waits for an open job that is not the one `seen`.
    fn wait(&self, seen: u64) -> u64 {
        let fresh = |state: u64| state & OPEN != 0 && state / NEXT != seen;
        for _ in 0..SPINS {
            let state = self.state.load(Ordering::Acquire);
            if fresh(state) {
                return state;
            }
            std::hint::spin_loop();
        }
        let mut asleep = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        *asleep += 1;
        let state = loop {
            let state = self.state.load(Ordering::SeqCst);
            if fresh(state) {
                break state;
            }
            asleep = self.wake.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        };
        *asleep -= 1;
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        state
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.workers.is_empty() {
            return;
        }
        self.publish(Job { work: &nothing, parts: 0, end: true });
        // The state stays open until every worker has read that this is the end.
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(threads: usize) -> Pool {
        Pool::new(NonZeroUsize::new(threads).unwrap())
    }

    #[test]
    fn every_part_runs_once() {
        for threads in 1..=4 {
            let mut pool = pool(threads);
            for parts in [0, 1, 2, 3, 7, 100] {
                for _ in 0..200 {
                    let counts: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
                    pool.run(parts, &|part| {
                        counts[part].fetch_add(1, Ordering::Relaxed);
                    });
                    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
                }
            }
        }
    }

    #[test]
    fn workers_that_sleep_are_woken() {
        let mut pool = pool(3);
        for _ in 0..5 {
            // Until both sleep; nothing depends on how long this takes.
            while *pool.shared.asleep.lock().unwrap() < 2 {
                std::thread::yield_now();
            }
            let sum = AtomicUsize::new(0);
            pool.run(50, &|part| {
                sum.fetch_add(part, Ordering::Relaxed);
            });
            assert_eq!(sum.into_inner(), 1225);
        }
    }

    #[test]
    fn a_panic_in_a_part_reaches_the_caller_and_the_pool_lives_on() {
        let mut pool = pool(3);
        for _ in 0..20 {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                pool.run(10, &|part| assert_ne!(part, 7, "the seventh"));
            }));
            assert!(outcome.is_err());
            let sum = AtomicUsize::new(0);
            pool.run(10, &|part| {
                sum.fetch_add(part, Ordering::Relaxed);
            });
            assert_eq!(sum.into_inner(), 45);
        }
    }
}
