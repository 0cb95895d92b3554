//! Runs that are made side by side and recorded as they end.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError, mpsc};

use super::record::{Log, Record};
use crate::Result;

/// A run to make if the log does not have it.
pub(super) struct Job {
    pub(super) method: String,
    pub(super) problem: String,
    pub(super) seed: u64,
    pub(super) n: u64,
    /// Gives the records of the run; one has the name, problem, seed and n above.
    pub(super) work: Box<dyn FnOnce() -> Result<Vec<Record>> + Send>,
}

/// Makes the runs that are missing, as many at a time as this process has processors.
///
/// # Errors
/// Names the runs that failed, after all others were made.
pub(super) fn run(log: &mut Log, jobs: impl IntoIterator<Item = Job>) -> Result<()> {
    let missing = jobs.into_iter().filter(|job| !log.has(&job.method, &job.problem, job.seed, job.n));
    let queue: Mutex<VecDeque<Job>> = Mutex::new(missing.collect());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (sender, receiver) = mpsc::channel();
    let mut failures = Vec::new();
    std::thread::scope(|scope| -> Result<()> {
        for _ in 0..threads {
            let (queue, sender) = (&queue, sender.clone());
            scope.spawn(move || {
                let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                while let Some(job) = next() {
                    let what = format!("{} on {}, seed {}", job.method, job.problem, job.seed);
                    let records = (job.work)().map_err(|error| format!("{what}: {error}"));
                    if sender.send(records).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for records in receiver {
            match records {
                Ok(records) => records.iter().try_for_each(|record| log.push(record))?,
                Err(failure) => {
                    super::log(&format!("FAILED: {failure}"));
                    failures.push(failure);
                }
            }
        }
        Ok(())
    })?;
    if failures.is_empty() { Ok(()) } else { Err(format!("runs failed:\n{}", failures.join("\n")).into()) }
}
