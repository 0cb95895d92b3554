//! The gradient by the filters: products of the tiles of images and of gradients, summed over tiles.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::product::Product;
use super::transforms::{F, Maps, Target, from_planes, to_planes};
use super::{Grid, PADDING, SLOTS, Tile, WIDTH, whole};
use crate::geometry::Geometry;
use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};
use crate::{Context, Kernel};

/// Sums that few channels are cut into, so that threads have some each.
const CHAINS: usize = 8;
/// Products of channels up to which they are.
const FEW_CHANNELS: usize = 64 * 64;
/// Tiles whose frequencies are in memory at once at most where filters are the smaller part.
const MANY_TILES: usize = 256;

/// How the work is cut. What is summed in which order follows from the shape alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// Few channels: tiles are cut into [`CHAINS`] ranges, each a sum of its own; they are added up
    /// in pairs of neighbours at the end.
    Chains,
    /// Many tiles: one group of them after the other is transformed by all threads and then added
    /// to the sums, a frequency a thread.
    Frequencies,
    /// Few tiles: all are transformed, and every block of 16 channels and 32 outputs is summed and
    /// finished at once, its sums never leaving the cache.
    Blocks,
}

/// `dw = Σ x ⊗ dy` on tiles.
#[derive(Debug)]
pub(super) struct WeightGrad {
    tile: Tile,
    n: usize,
    x: Grid,
    dy: Grid,
    tiles: usize,
    cut: Cut,
}

/// What the workspace has room for.
#[derive(Clone, Copy)]
struct Room {
    /// Threads that have a buffer of their own.
    slots: usize,
    /// Tiles that are transformed at once.
    group: usize,
    /// Blocks of outputs that are transformed at once.
    outputs: usize,
}

/// Where things are in the workspace.
#[derive(Clone, Copy)]
struct Layout {
    images: usize,
    grads: usize,
    sums: usize,
    end: usize,
}

impl WeightGrad {
    pub(super) fn new(g: &Geometry, tile: Tile) -> WeightGrad {
        let (n, c, k) = (g.n, g.c, g.k);
        let (size, step) = ([g.out_h(), g.out_w()], tile.side());
        let tiles = size.map(|outputs| outputs.div_ceil(step));
        let padding = [g.padding[0], g.padding[1]];
        let x = Grid { size: [g.h, g.w], channels: c, padding, tiles, step };
        let dy = Grid { size, channels: k, padding: [0, 0], tiles, step };
        let tiles = n * tiles[0] * tiles[1];
        let cut = if c * k <= FEW_CHANNELS {
            Cut::Chains
        } else if tiles > MANY_TILES {
            Cut::Frequencies
        } else {
            Cut::Blocks
        };
        WeightGrad { tile, n, x, dy, tiles, cut }
    }

    fn channel_blocks(&self) -> usize {
        self.x.channels.div_ceil(LANES)
    }

    fn output_blocks(&self) -> usize {
        self.dy.channels.div_ceil(WIDTH)
    }

    /// Floats of a frequency of all sums of a chain, or of a block of them.
    fn sum_plane(&self) -> usize {
        let sums = match self.cut {
            Cut::Blocks => LANES * WIDTH,
            Cut::Chains | Cut::Frequencies => whole(self.x.channels) * whole(self.dy.channels),
        };
        sums + PADDING
    }

    fn rooms(&self) -> [Room; 2] {
        let blocks = self.output_blocks();
        match self.cut {
            Cut::Chains => {
                SLOTS.map(|slots| Room { slots, group: 24.min(self.tiles.div_ceil(CHAINS)), outputs: blocks })
            }
            Cut::Frequencies => {
                [MANY_TILES / 4, MANY_TILES].map(|group| Room { slots: 1, group, outputs: blocks })
            }
            Cut::Blocks => [(SLOTS[0], blocks.div_ceil(4)), (SLOTS[1], blocks)].map(|(slots, outputs)| {
                Room { slots: slots.min(outputs * self.channel_blocks()), group: self.tiles, outputs }
            }),
        }
    }

    fn layout(&self, room: Room) -> Layout {
        let frequencies = self.tile.frequencies();
        let (c, k) = (whole(self.x.channels), whole(self.dy.channels));
        let (buffers, sums) = match self.cut {
            Cut::Chains => (room.slots, CHAINS),
            Cut::Frequencies => (1, 1),
            Cut::Blocks => (1, room.slots),
        };
        let images = c.max(k);
        let grads = images + buffers * frequencies * room.image_plane(self);
        let sums_at = grads + buffers * frequencies * room.grad_plane(self);
        Layout { images, grads, sums: sums_at, end: sums_at + sums * frequencies * self.sum_plane() }
    }
}

impl Room {
    /// Floats of a frequency of a group of tiles.
    fn image_plane(self, plan: &WeightGrad) -> usize {
        whole(plan.x.channels) * self.group + PADDING
    }

    fn grad_plane(self, plan: &WeightGrad) -> usize {
        whole(plan.dy.channels).min(self.outputs * WIDTH) * self.group + PADDING
    }
}

impl Kernel for WeightGrad {
    fn workspaces(&self) -> Vec<usize> {
        let mut sizes = self.rooms().map(|room| self.layout(room).end).to_vec();
        sizes.dedup();
        sizes
    }

    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        let ([x, dy], [dw]) = (reads, writes) else { unreachable!("two reads and one write") };
        let (c, k) = (self.x.channels, self.dy.channels);
        assert!(x.len() == self.x.floats(self.n) && dy.len() == self.dy.floats(self.n));
        assert_eq!(dw.len(), 9 * c * k);
        let found = self.rooms().into_iter().find(|&room| self.layout(room).end == workspace.len());
        let room = found.expect("a workspace it asked for");
        workspace[..whole(c).max(whole(k))].fill(0.0);
        let (dw, workspace) = (Shared::new(dw), Shared::new(workspace));
        let call = Call { plan: self, x, dy, dw, workspace, layout: self.layout(room), room };
        let isa = cx.isa;
        let next = AtomicUsize::new(0);
        match self.cut {
            Cut::Chains => {
                cx.pool.run(room.slots, &|slot| isa.run(SumChains { call, slot, next: &next }));
            }
            Cut::Frequencies => {
                for first in (0..self.tiles).step_by(room.group) {
                    let tiles = room.group.min(self.tiles - first);
                    transform(cx, call, first, tiles, true, 0..self.output_blocks());
                    let resume = first > 0;
                    cx.pool.run(self.tile.frequencies(), &|frequency| {
                        isa.run(SumFrequency { call, frequency, tiles, resume });
                    });
                }
            }
            Cut::Blocks => {
                for first in (0..self.output_blocks()).step_by(room.outputs) {
                    let outputs = first..self.output_blocks().min(first + room.outputs);
                    transform(cx, call, 0, self.tiles, first == 0, outputs.clone());
                    let units = outputs.len() * self.channel_blocks();
                    let next = AtomicUsize::new(0);
                    cx.pool.run(room.slots, &|slot| {
                        isa.run(SumBlocks { call, slot, first, units, next: &next });
                    });
                }
            }
        }
        if self.cut != Cut::Blocks {
            let blocks = self.channel_blocks();
            cx.pool.run(self.output_blocks() * blocks, &|part| {
                isa.run(Finish { call, outputs: part / blocks, channels: part % blocks });
            });
        }
    }
}

/// Transforms `tiles` tiles from `first` on: images, if they are wanted, and blocks of gradients.
fn transform(
    cx: &mut Context<'_>,
    call: Call<'_>,
    first: usize,
    tiles: usize,
    images: bool,
    outputs: std::ops::Range<usize>,
) {
    // Tiles to be transformed at once: some microseconds of work.
    let some = (2048 / (call.plan.x.channels + call.plan.dy.channels)).clamp(1, 16);
    let isa = cx.isa;
    cx.pool.run(tiles.div_ceil(some), &|part| {
        let (from, to) = (part * some, tiles.min((part + 1) * some));
        let outputs = (outputs.start, outputs.end);
        isa.run(Transform { call, slot: 0, first, tiles, from, to, images, outputs });
    });
}

/// A run of the kernel.
#[derive(Clone, Copy)]
struct Call<'a> {
    plan: &'a WeightGrad,
    x: &'a [f32],
    dy: &'a [f32],
    dw: Shared<'a>,
    workspace: Shared<'a>,
    layout: Layout,
    room: Room,
}

/// Transforms tiles `from..to` of the `tiles` that begin with `first`.
#[derive(Clone, Copy)]
struct Transform<'a> {
    call: Call<'a>,
    slot: usize,
    first: usize,
    tiles: usize,
    from: usize,
    to: usize,
    images: bool,
    /// The first and the last block of outputs.
    outputs: (usize, usize),
}

impl Body for Transform<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: nobody else writes these tiles.
        unsafe {
            match self.call.plan.tile {
                Tile::F2 => self.tiles::<S, F<2>, 4, 2>(s),
                Tile::F4 => self.tiles::<S, F<4>, 6, 4>(s),
            }
        }
    }
}

impl Transform<'_> {
    /// # Safety
    /// Nobody else writes these tiles.
    #[inline(always)]
    unsafe fn tiles<S: Simd, M: Maps, const SIZE: usize, const SIDE: usize>(self, s: S) {
        let Transform { call, tiles, .. } = self;
        let (plan, room) = (call.plan, call.room);
        let (c, k) = (plan.x.channels, plan.dy.channels);
        let zeros = call.workspace.at(0).cast_const();
        for row in self.from..self.to {
            // SAFETY: as the caller promises; images and gradients are as large as the kernel saw.
            unsafe {
                if self.images {
                    let places = plan.x.window::<SIZE>(call.x, self.first + row, zeros);
                    for channel in (0..c).step_by(LANES) {
                        let to = call.images(self.slot).add(channel * tiles + row * LANES);
                        let plane = room.image_plane(plan);
                        to_planes::<S, M::Input>(s, &places, channel, c - channel, to, plane);
                    }
                }
                let places = plan.dy.window::<SIDE>(call.dy, self.first + row, zeros);
                for block in self.outputs.0..self.outputs.1 {
                    let width = call.width(block);
                    for left in (0..width).step_by(LANES) {
                        let at = (block - self.outputs.0) * WIDTH * tiles + row * width + left;
                        let to = call.grads(self.slot).add(at);
                        let (output, plane) = (block * WIDTH + left, room.grad_plane(plan));
                        to_planes::<S, M::OutputGrad>(s, &places, output, k - output, to, plane);
                    }
                }
            }
        }
    }
}

/// Takes one chain after another until all are done.
struct SumChains<'a> {
    call: Call<'a>,
    slot: usize,
    next: &'a AtomicUsize,
}

impl Body for SumChains<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let SumChains { call, slot, next } = self;
        let plan = call.plan;
        let outputs = (0, plan.output_blocks());
        loop {
            let chain = next.fetch_add(1, Ordering::Relaxed);
            if chain >= CHAINS {
                break;
            }
            let (from, to) = (chain * plan.tiles / CHAINS, (chain + 1) * plan.tiles / CHAINS);
            let sums = call.sums(chain);
            // An empty chain is a product of depth 0, which writes zeros.
            let mut first = from;
            loop {
                let tiles = call.room.group.min(to - first);
                Transform { call, slot, first, tiles, from: 0, to: tiles, images: true, outputs }.run(s);
                for frequency in 0..plan.tile.frequencies() {
                    // SAFETY: nobody else has the slot or the chain.
                    unsafe { call.frequency(s, slot, frequency, tiles, sums, first > from) };
                }
                first += tiles;
                if first >= to {
                    break;
                }
            }
        }
    }
}

/// Adds the products of `tiles` tiles to all sums of a frequency.
struct SumFrequency<'a> {
    call: Call<'a>,
    frequency: usize,
    tiles: usize,
    resume: bool,
}

impl Body for SumFrequency<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let SumFrequency { call, frequency, tiles, resume } = self;
        // SAFETY: nobody else has the frequency.
        unsafe { call.frequency(s, 0, frequency, tiles, call.sums(0), resume) };
    }
}

/// Takes one block of channels and outputs after another, from block `first` of outputs on, until
/// `units` are done.
struct SumBlocks<'a> {
    call: Call<'a>,
    slot: usize,
    first: usize,
    units: usize,
    next: &'a AtomicUsize,
}

impl Body for SumBlocks<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let SumBlocks { call, slot, first, units, next } = self;
        let plan = call.plan;
        loop {
            let unit = next.fetch_add(1, Ordering::Relaxed);
            if unit >= units {
                break;
            }
            let (outputs, channels) = (unit / plan.channel_blocks(), unit % plan.channel_blocks());
            let width = call.width(first + outputs);
            for frequency in 0..plan.tile.frequencies() {
                // SAFETY: nobody else has the slot.
                unsafe {
                    let to = call.sums(slot).add(frequency * plan.sum_plane());
                    call.block(s, 0, frequency, plan.tiles, outputs, channels, width, to, false);
                }
            }
            // SAFETY: the sums are complete, and nobody else has the unit.
            unsafe { call.finish(s, call.sums(slot), first + outputs, channels) };
        }
    }
}

/// Adds up the chains of a block of channels and outputs, and writes it.
struct Finish<'a> {
    call: Call<'a>,
    outputs: usize,
    channels: usize,
}

impl Body for Finish<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Finish { call, outputs, channels } = self;
        let at = call.block_at(outputs, channels);
        // SAFETY: the sums are complete, and nobody else has the block.
        unsafe {
            if call.plan.cut == Cut::Chains {
                call.add_chains(s, at, LANES * call.width(outputs));
            }
            call.finish(s, call.sums(0).add(at), outputs, channels);
        }
    }
}

impl Call<'_> {
    /// Outputs of a block, in whole vectors.
    #[inline(always)]
    fn width(&self, block: usize) -> usize {
        whole(self.plan.dy.channels - block * WIDTH).min(WIDTH)
    }

    #[inline(always)]
    fn images(&self, slot: usize) -> *mut f32 {
        let plane = self.room.image_plane(self.plan);
        self.workspace.at(self.layout.images + slot * self.plan.tile.frequencies() * plane)
    }

    #[inline(always)]
    fn grads(&self, slot: usize) -> *mut f32 {
        let plane = self.room.grad_plane(self.plan);
        self.workspace.at(self.layout.grads + slot * self.plan.tile.frequencies() * plane)
    }

    /// The sums of a chain, or of a slot.
    #[inline(always)]
    fn sums(&self, at: usize) -> *mut f32 {
        let plan = self.plan;
        self.workspace.at(self.layout.sums + at * plan.tile.frequencies() * plan.sum_plane())
    }

    /// Where a block of sums lies in a plane of all of them.
    #[inline(always)]
    fn block_at(&self, outputs: usize, channels: usize) -> usize {
        outputs * WIDTH * whole(self.plan.x.channels) + channels * LANES * self.width(outputs)
    }

    /// Adds the products of `tiles` tiles to all `sums` of a frequency.
    ///
    /// # Safety
    /// The tiles are in the slot, and nobody else has the sums.
    #[inline(always)]
    unsafe fn frequency<S: Simd>(
        &self,
        s: S,
        slot: usize,
        frequency: usize,
        tiles: usize,
        sums: *mut f32,
        resume: bool,
    ) {
        for outputs in 0..self.plan.output_blocks() {
            let width = self.width(outputs);
            for channels in 0..self.plan.channel_blocks() {
                // SAFETY: as the caller promises.
                unsafe {
                    let at = frequency * self.plan.sum_plane() + self.block_at(outputs, channels);
                    let to = sums.add(at);
                    self.block(s, slot, frequency, tiles, outputs, channels, width, to, resume);
                }
            }
        }
    }

    /// Adds the products of `tiles` tiles to a block of sums at `to`; `outputs` counts from the first
    /// block in the slot.
    ///
    /// # Safety
    /// The tiles are in the slot, and nobody else has the sums.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the three matrices and where they are cut")]
    unsafe fn block<S: Simd>(
        &self,
        s: S,
        slot: usize,
        frequency: usize,
        tiles: usize,
        outputs: usize,
        channels: usize,
        width: usize,
        to: *mut f32,
        resume: bool,
    ) {
        let image = frequency * self.room.image_plane(self.plan) + channels * LANES * tiles;
        let grad = frequency * self.room.grad_plane(self.plan) + outputs * WIDTH * tiles;
        // SAFETY: as the caller promises.
        unsafe {
            let product = Product {
                a: self.images(slot).add(image),
                a_row: 1,
                a_step: LANES,
                b: self.grads(slot).add(grad),
                b_row: width,
                c: to,
                c_row: width,
                depth: tiles,
                resume,
            };
            product.run(s, LANES.min(self.plan.x.channels - channels * LANES), width / LANES);
        }
    }

    /// Adds the chains of `n` sums from `at` on to the first chain: neighbours, then pairs, and so on.
    ///
    /// # Safety
    /// Nobody else has these sums.
    #[inline(always)]
    unsafe fn add_chains<S: Simd>(&self, s: S, at: usize, n: usize) {
        let plane = self.plan.sum_plane();
        for frequency in 0..self.plan.tile.frequencies() {
            for i in (at..at + n).step_by(LANES) {
                let mut sums = [s.splat(0.0); CHAINS];
                // SAFETY: as the caller promises.
                unsafe {
                    for (chain, sum) in sums.iter_mut().enumerate() {
                        *sum = s.load(self.sums(chain).add(frequency * plane + i));
                    }
                    let mut half = CHAINS / 2;
                    while half > 0 {
                        for j in 0..half {
                            sums[j] = s.add(sums[2 * j], sums[2 * j + 1]);
                        }
                        half /= 2;
                    }
                    s.store(self.sums(0).add(frequency * plane + i), sums[0]);
                }
            }
        }
    }

    /// Writes a block of the gradient from its sums.
    ///
    /// # Safety
    /// The sums are complete, and nobody else writes the block.
    #[inline(always)]
    unsafe fn finish<S: Simd>(&self, s: S, sums: *const f32, outputs: usize, channels: usize) {
        let (plan, width) = (self.plan, self.width(outputs));
        let (c, k) = (plan.x.channels, plan.dy.channels);
        for i in 0..LANES.min(c - channels * LANES) {
            for left in (0..width).step_by(LANES) {
                let output = outputs * WIDTH + left;
                let to = self.dw.at((channels * LANES + i) * k + output);
                let target = Target { to, strides: [3 * c * k, c * k], size: [3, 3] };
                // SAFETY: as the caller promises.
                unsafe {
                    let from = sums.add(i * width + left);
                    let plane = plan.sum_plane();
                    match plan.tile {
                        Tile::F2 => from_planes::<S, <F<2> as Maps>::FilterGrad>(
                            s,
                            from,
                            plane,
                            target,
                            k - output,
                            None,
                        ),
                        Tile::F4 => from_planes::<S, <F<4> as Maps>::FilterGrad>(
                            s,
                            from,
                            plane,
                            target,
                            k - output,
                            None,
                        ),
                    }
                }
            }
        }
    }
}
