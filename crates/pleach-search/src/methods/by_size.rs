//! A method that is one thing in small finite spaces and another elsewhere.

use super::{Optimizer, Proposal};
use crate::gp::pool::suits;
use crate::{Error, History, Partition, Region};

type Build = Box<dyn Fn(&History) -> Result<Box<dyn Optimizer>, Error> + Send>;

/// The optimiser that suits the size of the space; when the space is extended, another may take over.
pub(super) struct BySize {
    inner: Box<dyn Optimizer>,
    /// For spaces in which every point is looked at; it learns the history that it is built with.
    small: Build,
    /// For all others; it is built as if nothing had happened.
    large: Build,
    is_small: bool,
}

impl BySize {
    pub(super) fn new(history: &History, small: Build, large: Build) -> Result<Self, Error> {
        let is_small = suits(history.space());
        let inner = if is_small { small(history) } else { large(history) }?;
        Ok(Self { inner, small, large, is_small })
    }
}

impl Optimizer for BySize {
    fn ask(&self, history: &History, region: &Region, n: usize) -> Result<Vec<Proposal>, Error> {
        self.inner.ask(history, region, n)
    }

    fn asked(&mut self, history: &History, region: &Region, number: u64) {
        self.inner.asked(history, region, number);
    }

    fn told(&mut self, history: &History, number: u64) {
        self.inner.told(history, number);
    }

    fn space_changed(&mut self, history: &History) -> Result<(), Error> {
        if suits(history.space()) {
            self.inner = (self.small)(history)?;
        } else if self.is_small {
            self.inner = (self.large)(history)?;
            (0..history.next_number()).for_each(|number| self.inner.asked(history, &Region::whole(), number));
            history.told().iter().for_each(|&number| self.inner.told(history, number));
        } else {
            self.inner.space_changed(history)?;
        }
        self.is_small = suits(history.space());
        Ok(())
    }

    fn partition(&self, history: &History) -> Option<Partition> {
        self.inner.partition(history)
    }

    fn snapshot(&self) -> Vec<u8> {
        self.inner.snapshot()
    }

    fn restore(&mut self, history: &History, snapshot: &[u8]) -> Result<(), Error> {
        self.inner.restore(history, snapshot)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Goal, Measurement, Metric, Options, Outcome, Parameter, Problem, Search, Seed, Space};

    #[test]
    fn spaces_that_outgrow_a_method_go_to_the_other() {
        let space = |n: i64| {
            let sizes: Vec<i64> = (0..n).collect();
            Space::new((0..4).map(|i| Parameter::ordinal(&format!("x{i}"), sizes.clone())).collect(), &[])
                .unwrap()
        };
        let problem = Problem::new(space(4), vec![Metric::objective("loss", Goal::Min)]).unwrap();
        for name in ["gp", "lanas"] {
            let mut search = Search::new(problem.clone(), name, &Options::new(), Seed::new(1)).unwrap();
            let run = |search: &mut Search, trials: usize| {
                for _ in 0..trials {
                    let number = search.ask(1).unwrap()[0];
                    let point = search.history().trial(number).point.values().to_vec();
                    let sum: usize = point.iter().filter_map(crate::Value::as_choice).sum();
                    search.tell(number, Outcome::Measured(Measurement::new(vec![-(sum as f64)]))).unwrap();
                }
                search.history().best().unwrap().value
            };
            assert!(run(&mut search, 40) <= -12.0 + 1e-9, "{name} finds the corner of 256 points");
            search.edit_space(space(6)).unwrap();
            assert!(run(&mut search, 40) < -16.0, "{name} goes on in 1,296 points");
            search.edit_space(space(18)).unwrap();
            assert!(run(&mut search, 40) < -20.0, "{name} goes on in 104,976 points");
        }
    }
}
