//! What a file leaves to Pleach.

use std::path::Path;

use pleach_search::Literal;
use pleach_study::{Reader, Spec};

/// The method of a file that names none.
pub(crate) const AUTO: &str = "auto";

/// The study of that name in a file, as it was created; `None` if it cannot be read, which whoever
/// opens it next explains.
pub(crate) fn stored(path: &Path, name: &str) -> Option<Spec> {
    Reader::open(path).ok()?.first_spec(Some(name)).ok()
}

/// Completes a spec that leaves the method to Pleach.
///
/// A new study is told of the trials that it is to have in all and at once, as far as they are
/// known. One that exists keeps its method and what that was chosen for: a study that is given more
/// trials goes on as it began.
pub(crate) fn settle(spec: &mut Spec, stored: Option<&Spec>, budget: Option<u64>, parallel: Option<u64>) {
    if spec.method != AUTO {
        return;
    }
    let literal = |limit: u64| Literal::Int(limit.clamp(1, u32::MAX.into()).cast_signed());
    for (name, limit) in [("budget", budget), ("parallel", parallel)] {
        let value = match stored {
            Some(stored) => stored.options.get(name).cloned(),
            None => limit.map(literal),
        };
        if let Some(value) = value {
            spec.options.entry(name.to_owned()).or_insert(value);
        }
    }
    if let Some(stored) = stored {
        spec.method.clone_from(&stored.method);
    }
}
