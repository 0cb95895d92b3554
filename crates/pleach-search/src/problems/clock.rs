//! Simulated time: which of several workers is done next, when durations are recorded.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The clock of a simulated pool of workers: pure and deterministic.
///
/// Each worker runs one trial at a time for as long as its recorded duration.
///
/// ```
/// use pleach_search::problems::Clock;
///
/// let mut clock = Clock::new(2);
/// clock.start(0, 3.0);
/// clock.start(1, 1.0);
/// assert_eq!(clock.idle(), 0);
/// assert_eq!(clock.finish(), Some(1));
/// clock.start(2, 4.0);
/// assert_eq!(clock.finish(), Some(0));
/// assert_eq!(clock.now_s(), 3.0);
/// assert_eq!(clock.finish(), Some(2));
/// assert_eq!(clock.now_s(), 5.0);
/// ```
#[derive(Clone, Debug)]
pub struct Clock {
    workers: usize,
    now_s: f64,
    running: BinaryHeap<Reverse<End>>,
}

/// When a trial ends; at equal times the smaller number ends first.
#[derive(Clone, Copy, Debug)]
struct End {
    at_s: f64,
    number: u64,
}

impl Clock {
    /// A pool of `workers` idle workers at time 0.
    pub fn new(workers: usize) -> Self {
        Self { workers, now_s: 0.0, running: BinaryHeap::new() }
    }

    /// Seconds since the start.
    pub fn now_s(&self) -> f64 {
        self.now_s
    }

    /// Number of workers without a trial.
    pub fn idle(&self) -> usize {
        self.workers.saturating_sub(self.running.len())
    }

    /// Gives trial `number` to an idle worker, for `seconds` from now on. A duration below 0 or
    /// that is not a number counts as 0.
    ///
    /// # Panics
    /// If no worker is idle.
    pub fn start(&mut self, number: u64, seconds: f64) {
        assert!(self.idle() > 0, "every worker is busy; wait for one with `finish`");
        self.running.push(Reverse(End { at_s: self.now_s + seconds.max(0.0), number }));
    }

    /// Moves on to the end of the trial that is done next, and returns its number; `None` if all
    /// workers are idle.
    pub fn finish(&mut self) -> Option<u64> {
        let Reverse(end) = self.running.pop()?;
        self.now_s = end.at_s;
        Some(end.number)
    }
}

impl Ord for End {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at_s.total_cmp(&other.at_s).then(self.number.cmp(&other.number))
    }
}

impl PartialOrd for End {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for End {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for End {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_end_in_order_of_time_then_number() {
        let mut clock = Clock::new(3);
        for (number, seconds) in [(7, 2.0), (5, 2.0), (6, f64::NAN)] {
            clock.start(number, seconds);
        }
        let order: Vec<u64> = std::iter::from_fn(|| clock.finish()).collect();
        assert_eq!(order, [6, 5, 7]);
        assert_eq!((clock.now_s(), clock.idle()), (2.0, 3));
    }

    #[test]
    fn makespan_is_that_of_a_greedy_schedule() {
        let durations = [5.0, 4.0, 3.0, 2.0, 1.0];
        let mut clock = Clock::new(2);
        let mut waiting = (0..5).zip(durations);
        while let Some((number, seconds)) = (clock.idle() > 0).then(|| waiting.next()).flatten() {
            clock.start(number, seconds);
        }
        let mut ends = Vec::new();
        while let Some(number) = clock.finish() {
            ends.push((number, clock.now_s()));
            if let Some((number, seconds)) = waiting.next() {
                clock.start(number, seconds);
            }
        }
        assert_eq!(ends, [(1, 4.0), (0, 5.0), (2, 7.0), (3, 7.0), (4, 8.0)]);
    }
}
