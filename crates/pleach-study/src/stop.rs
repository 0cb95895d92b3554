//! Requests to stop, shared between whoever receives them and the workers.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How urgent a request to stop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Urgency {
    /// Go on.
    #[default]
    None,
    /// Ask for no more trials, and finish those that run.
    Drain,
    /// Kill what runs; its trials are evaluated again by the next run.
    Kill,
}

/// A flag that can be raised twice: first to drain, then to kill. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<(Mutex<Urgency>, Condvar)>);

impl Stop {
    /// A flag that is not raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises the flag by one, as an interrupt from the keyboard does, and returns where it stands.
    pub fn request(&self) -> Urgency {
        let next = if self.urgency() == Urgency::None { Urgency::Drain } else { Urgency::Kill };
        self.raise(next);
        self.urgency()
    }

    /// Raises the flag to `urgency`; it never falls.
    pub fn raise(&self, urgency: Urgency) {
        let mut level = self.lock();
        *level = (*level).max(urgency);
        self.0.1.notify_all();
    }

    /// Where the flag stands.
    pub fn urgency(&self) -> Urgency {
        *self.lock()
    }

    /// Waits at most `timeout` for the flag to be raised at all; true if it is.
    pub fn wait(&self, timeout: Duration) -> bool {
        let calm = |level: &mut Urgency| *level == Urgency::None;
        let result = self.0.1.wait_timeout_while(self.lock(), timeout, calm);
        *result.unwrap_or_else(PoisonError::into_inner).0 != Urgency::None
    }

    fn lock(&self) -> MutexGuard<'_, Urgency> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_drain_then_kill_and_wake_who_waits() {
        let stop = Stop::new();
        assert!(!stop.wait(Duration::ZERO));
        let other = stop.clone();
        let waiter = std::thread::spawn(move || other.wait(Duration::from_mins(1)));
        assert_eq!(stop.request(), Urgency::Drain);
        assert!(waiter.join().unwrap());
        assert_eq!(stop.request(), Urgency::Kill);
        stop.raise(Urgency::Drain);
        assert_eq!((stop.request(), stop.urgency()), (Urgency::Kill, Urgency::Kill));
    }
}
