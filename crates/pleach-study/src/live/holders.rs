//! Who holds which trial, and for how long.

use std::time::Instant;

use super::{Context, Live, Open};
use crate::{Error, State, Tell};

impl Live {
    /// Renews leases, and returns the trials that the worker does not hold.
    pub(crate) fn renew(&mut self, context: &Context<'_>, worker: &str, numbers: &[u64]) -> Vec<u64> {
        let mut lost = Vec::new();
        for &number in numbers {
            match self.open.get_mut(&number) {
                Some(open)
                    if open.row.state == State::Running
                        && open.row.record.worker.as_deref() == Some(worker) =>
                {
                    open.renew(context.now);
                }
                _ => lost.push(number),
            }
        }
        lost
    }

    /// Gives back what a handle holds that is being closed.
    pub(crate) fn release(&mut self, context: &Context<'_>, client: u64) -> Result<(), Error> {
        let held = |open: &&Open| {
            open.row.record.holder.is_some_and(|holder| holder.client == client && holder.ends_with_handle())
        };
        let numbers: Vec<u64> = self.open.values().filter(held).map(|open| open.row.number).collect();
        numbers.into_iter().try_for_each(|number| self.give_back(context, number, State::Waiting).map(drop))
    }

    /// The running trials whose holder is gone or has been silent for too long.
    pub(crate) fn orphans(&self, now: Instant) -> Vec<u64> {
        let is_orphan = |open: &&Open| {
            if open.row.state != State::Running {
                return false;
            }
            let overdue = open.deadline.is_some_and(|deadline| deadline < now);
            overdue || open.row.record.holder.is_some_and(|holder| holder.is_gone())
        };
        self.open.values().filter(is_orphan).map(|open| open.row.number).collect()
    }

    /// Takes trials back whose holder is gone; they are handed out again before any others, or are
    /// lost if that happened too often.
    pub(crate) fn sweep(&mut self, context: &Context<'_>) -> Result<(), Error> {
        for number in self.orphans(context.now) {
            let open = self.open.get_mut(&number).expect("orphans are open");
            open.row.record.lost += 1;
            tracing::debug!(trial = number, lost = open.row.record.lost, "its worker is gone");
            if open.row.record.lost < context.max_lost {
                self.write(context, number, State::Waiting)?;
            } else {
                self.finish(context, number, Tell::Lost)?;
            }
        }
        self.swept = true;
        Ok(())
    }
}
