//! Gaussian process regression on codes of points (Rasmussen, Williams 2006).
//!
//! A [`Kernel`] says how points are compared; [`fit`] finds its hyper-parameters; a [`Model`] is
//! the factor of the covariance of known points, which grows by a row a point; conditioned on
//! targets it is a [`Posterior`].

mod acquisition;
pub(crate) mod field;
mod fit;
mod kernel;
mod lbfgs;
mod model;
mod path;
pub(crate) mod pool;
pub(crate) mod targets;

pub(crate) use acquisition::Acquisition;
pub(crate) use fit::{fit, fit_warped};
pub(crate) use kernel::{Input, Inputs, Kernel, Tuned};
pub(crate) use lbfgs::minimise;
pub(crate) use model::{Model, Posterior};
pub(crate) use path::Path;
