//! The derivative of a convolution by images of few channels, such as the first of a network.
//!
//! Few channels would leave most of a vector idle, so some neighbouring pixels are taken as one of
//! more channels. It gathers all outputs that any of them reads, through filters that are zero
//! where a pixel does not read one.

#![expect(unsafe_code, reason = "filters are written in parts")]

use super::gather::Gather;
use super::taps::{Taps, input_taps};
use crate::geometry::Geometry;
use crate::kernel::Shared;
use crate::simd::LANES;
use crate::{Context, Kernel};

/// Reads `(dy, w)` and writes `dx`.
#[derive(Debug)]
pub(super) struct Stretched {
    g: Geometry,
    /// Pixels that are taken as one.
    pixels: usize,
    /// Outputs of a row that they gather.
    window: usize,
    /// How many of these come before the output at the place of the first pixel.
    lead: usize,
    gather: Gather,
}

impl Stretched {
    /// The kernel, where it suits these sizes.
    pub(super) fn new(g: &Geometry) -> Option<Stretched> {
        let stride = g.stride[1];
        let fits = |&pixels: &usize| g.w.is_multiple_of(pixels) && pixels.is_multiple_of(stride);
        let pixels = (2..=LANES / g.c.min(LANES)).rev().find(fits)?;
        if g.groups > 1 || g.dilation[1] > 1 || g.s == 1 {
            return None;
        }
        // Pixel j reads output o through tap j + padding − stride · o.
        let lead = (g.s - 1 - g.padding[1]) / stride;
        let window = lead + (pixels - 1 + g.padding[1]) / stride + 1;
        let [rows, _] = input_taps(g);
        let columns: Vec<Taps> = (0..g.w / pixels)
            .map(|column| {
                let place = |i: usize| (column * (pixels / stride) + i).checked_sub(lead);
                let taps = (0..window).filter_map(|i| Some([window - 1 - i, place(i)?]));
                taps.filter(|tap| tap[1] < g.out_w()).collect()
            })
            .collect();
        let stretched = Geometry { w: g.w / pixels, c: pixels * g.c, s: window, ..*g };
        let (from, to) = (g.out_w() * g.k, g.w * g.c);
        let gather = Gather::new(
            &stretched,
            [&rows, &columns],
            [g.out_h() * from, from, g.k],
            [g.h * to, to, pixels * g.c],
            true,
            false,
        );
        Some(Stretched { g: *g, pixels, window, lead, gather })
    }

    /// Floats of a tap of the stretched filters.
    fn tap(&self) -> usize {
        self.pixels * self.g.c * self.g.k
    }

    /// Floats of all of them.
    fn filters(&self) -> usize {
        (self.g.r * self.window * self.tap()).next_multiple_of(LANES)
    }
}

impl Kernel for Stretched {
    fn workspaces(&self) -> Vec<usize> {
        self.gather.workspaces().into_iter().map(|floats| self.filters() + floats).collect()
    }

    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        let (dy, w, g) = (reads[0], reads[1], &self.g);
        let (filters, workspace) = workspace.split_at_mut(self.filters());
        let shared = Shared::new(&mut *filters);
        let pixel = g.c * g.k;
        cx.pool.run(g.r * self.window, &|part| {
            // SAFETY: every part has a tap of its own.
            let to = unsafe { shared.slice(part * self.tap(), (part + 1) * self.tap()) };
            let (r, i) = (part / self.window, self.window - 1 - part % self.window);
            for (j, to) in to.chunks_exact_mut(pixel).enumerate() {
                let tap = (j + g.padding[1] + self.lead * g.stride[1]).checked_sub(i * g.stride[1]);
                match tap.filter(|&tap| tap < g.s) {
                    Some(tap) => to.copy_from_slice(&w[(r * g.s + tap) * pixel..][..pixel]),
                    None => to.fill(0.0),
                }
            }
        });
        self.gather.run(cx, &[dy, filters], writes, workspace);
    }
}
