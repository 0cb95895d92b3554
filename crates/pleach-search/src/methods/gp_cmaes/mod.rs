//! CMA-ES whose generations are ranked by a Gaussian process.

mod screen;
mod surrogate;

use super::cmaes::{self, First, Plan, Restarts};
use super::options::Given;
use super::{Entry, Optimizer, Options};
use crate::{Error, History};
pub(super) use screen::Screen;
pub(super) use surrogate::Scales;

pub(super) const ENTRY: Entry = Entry {
    name: "gp-cmaes",
    summary: "CMA-ES that tries the draws a Gaussian process likes; for some hundred trials of 2 to 200 numbers",
    options: &[
        ("popsize", "32, or 16 from 50 coordinates on", "draws that a generation ranks"),
        (
            "evaluate",
            "4",
            "of these, trials at most: fewer where the process predicts well; it ranks the others",
        ),
        ("candidates", "popsize, or five times that from 50 coordinates on", "draws to choose them from"),
        (
            "sigma0",
            "0.2",
            "first standard deviation of a run that begins at a random point, as a share of every range",
        ),
        ("init", "20", "points of a Latin hypercube before the first run"),
        ("stall", "120", "trials without progress after which a run begins anew between the ten best points"),
        ("active", "true", "whether bad samples shrink the distribution"),
    ],
    learns: true,
    deliberates: true,
    build,
};

/// From so many coordinates on, a generation is small and chosen from more draws: what served best on
/// five functions of 100 dimensions that no figure uses.
const MANY: usize = 50;

/// Builds CMA-ES with a [`Screen`].
fn build(history: &History, options: &Options) -> Result<Box<dyn Optimizer>, Error> {
    let given = Given { method: ENTRY.name, options };
    let is_wide = history.space().unit_len() >= MANY;
    let population = given.count("popsize", 3..=1000)?.unwrap_or(if is_wide { 16 } else { 32 });
    let evaluated = given.count("evaluate", 1..=1000)?.unwrap_or(4).min(population);
    let candidates =
        given.count("candidates", 1..=10_000)?.unwrap_or(if is_wide { 5 } else { 1 } * population);
    let plan = Plan {
        population,
        sigma: given.number("sigma0", 1e-6..=1.0)?.unwrap_or(0.2),
        init: given.count("init", 0..=100_000)?.unwrap_or(20) as u64,
        first: First::Best,
        restarts: Restarts::Stall,
        stall: given.count("stall", 1..=1_000_000)?.unwrap_or(120) as u64,
        deepest_of: 1,
        active: given.flag("active", true)?,
    };
    let screen = Screen {
        candidates: candidates.max(population),
        evaluated,
        caution: if is_wide { 0.0 } else { 0.5 },
    };
    cmaes::assemble(ENTRY.name, history, plan, Some(screen))
}
