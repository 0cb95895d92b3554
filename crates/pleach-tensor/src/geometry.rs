//! The sizes of a convolution.

use crate::{Error, Shape};

/// The sizes of a convolution of images `[n, h, w, c]` to `[n, out_h, out_w, k]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) n: usize,
    pub(crate) h: usize,
    pub(crate) w: usize,
    pub(crate) c: usize,
    pub(crate) k: usize,
    /// Rows and columns of the filter.
    pub(crate) r: usize,
    pub(crate) s: usize,
    pub(crate) stride: [usize; 2],
    /// Zeros around the image: top, left, bottom, right.
    pub(crate) padding: [usize; 4],
    pub(crate) dilation: [usize; 2],
    pub(crate) groups: usize,
}

impl Geometry {
    /// Rows of the output; 0 where the filter does not fit.
    pub(crate) fn out_h(&self) -> usize {
        let padded = self.h + self.padding[0] + self.padding[2];
        out(padded, self.r, self.stride[0], self.dilation[0])
    }

    /// Columns of the output; 0 where the filter does not fit.
    pub(crate) fn out_w(&self) -> usize {
        let padded = self.w + self.padding[1] + self.padding[3];
        out(padded, self.s, self.stride[1], self.dilation[1])
    }

    /// The shape of the images.
    pub(crate) fn input(&self) -> Shape {
        Shape::from([self.n, self.h, self.w, self.c])
    }

    /// The shape of the output.
    pub(crate) fn output(&self) -> Shape {
        Shape::from([self.n, self.out_h(), self.out_w(), self.k])
    }

    /// The shape of the filters.
    pub(crate) fn weight(&self) -> Shape {
        Shape::from([self.r, self.s, self.c / self.groups, self.k])
    }

    /// Floats of the filters.
    pub(crate) fn weights(&self) -> usize {
        self.r * self.s * self.group_c() * self.k
    }

    /// Channels of a group.
    pub(crate) fn group_c(&self) -> usize {
        self.c / self.groups
    }

    /// Outputs of a group.
    pub(crate) fn group_k(&self) -> usize {
        self.k / self.groups
    }

    /// Multiply-adds of a forward pass, padding included.
    pub(crate) fn macs(&self) -> u64 {
        let pixels = (self.n * self.out_h() * self.out_w()) as u64;
        pixels * (self.r * self.s * self.group_c() * self.k) as u64
    }

    /// What does not fit together, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        let named = [
            ("channels", self.k),
            ("kernel", self.r.min(self.s)),
            ("stride", self.stride[0].min(self.stride[1])),
            ("dilation", self.dilation[0].min(self.dilation[1])),
            ("groups", self.groups),
        ];
        if let Some((name, _)) = named.iter().find(|(_, size)| *size == 0) {
            return Err(format!("{name} must be at least 1"));
        }
        if !self.c.is_multiple_of(self.groups) || !self.k.is_multiple_of(self.groups) {
            let (c, k, groups) = (self.c, self.k, self.groups);
            return Err(format!("{groups} groups do not divide {c} channels to {k}"));
        }
        let reach = |filter: usize, dilation: usize| (filter - 1).saturating_mul(dilation);
        if self.padding[0].max(self.padding[2]) > reach(self.r, self.dilation[0])
            || self.padding[1].max(self.padding[3]) > reach(self.s, self.dilation[1])
        {
            return Err("padding is at most the reach of the filter, its size less one".into());
        }
        if self.out_h() == 0 || self.out_w() == 0 {
            let (r, s, h, w) = (self.r, self.s, self.h, self.w);
            return Err(format!("a filter of {r} × {s} does not fit into {h} × {w} with its padding"));
        }
        Ok(())
    }

    /// Whether all tensors can be addressed.
    pub(crate) fn check_size(&self) -> Result<(), Error> {
        self.input().checked_len("the input")?;
        self.output().checked_len("the output")?;
        self.weight().checked_len("the filters").map(|_| ())
    }
}

fn out(padded: usize, filter: usize, stride: usize, dilation: usize) -> usize {
    let reach = (filter - 1).saturating_mul(dilation) + 1;
    if padded < reach { 0 } else { (padded - reach) / stride + 1 }
}
