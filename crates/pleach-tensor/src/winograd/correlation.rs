//! The convolution of images with filters, forward and, with the filters turned round, backward.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::product::Product;
use super::transforms::{F, Maps, Places, SIDE, from_planes, to_planes};
use super::{Grid, PADDING, SLOTS, Tile, WIDTH, whole};
use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};
use crate::{Context, Kernel};

/// Floats of filters, in frequencies, that are made once and kept; about what the second and third
/// level of a cache feed to the multiplications.
const KEPT_FILTERS: usize = 1_200_000;
/// Chunks of tiles whose frequencies lie in memory together, in the fast workspace.
const GROUP: usize = 4;
/// Pieces that the multiplications of a group are cut into for the threads, at least.
const RUNS: usize = 16;

/// What is transformed once and kept, while the other is transformed where it is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// Few channels: a chunk of images is small, and needed only by the thread that makes it.
    Filters,
    /// Many channels and few tiles: filters are larger than images.
    Images,
}

/// `y = x ∗ w + bias` on tiles.
#[derive(Debug)]
pub(super) struct Correlation {
    tile: Tile,
    n: usize,
    x: Grid,
    y: Grid,
    /// Whether `w` is `[3, 3, outputs, inputs]` and turned by 180°.
    turned: bool,
    tiles: usize,
    kept: Kept,
    /// Tiles that are multiplied at once.
    chunk: usize,
    /// Channels that are multiplied at once, whole vectors of them.
    depth: usize,
}

/// What the workspace has room for.
#[derive(Clone, Copy)]
struct Room {
    /// Threads that multiply.
    slots: usize,
    /// Chunks of images, if they are kept.
    group: usize,
}

/// Where things are in the workspace.
#[derive(Clone, Copy)]
struct Layout {
    filters: usize,
    images: usize,
    sums: usize,
    end: usize,
}

impl Correlation {
    /// Of `n` images of a size and a number of channels, read and written.
    pub(super) fn new(
        tile: Tile,
        n: usize,
        x: ([usize; 2], usize),
        y: ([usize; 2], usize),
        padding: [usize; 2],
        turned: bool,
    ) -> Correlation {
        let step = tile.side();
        let grid = |(size, channels): ([usize; 2], usize), padding| Grid {
            size,
            channels,
            padding,
            tiles: y.0.map(|outputs| outputs.div_ceil(step)),
            step,
        };
        let (x, y) = (grid(x, padding), grid(y, [0, 0]));
        let tiles = n * y.tiles[0] * y.tiles[1];
        let (c, k) = (whole(x.channels), whole(y.channels));
        // The sizes are those that were fastest in `benches/conv.rs`.
        let small = match tile {
            Tile::F2 => 48,
            Tile::F4 => 24,
        };
        let few_channels = c < 256 && tile.frequencies() * c * k <= KEPT_FILTERS;
        let (kept, chunk) = if few_channels && tiles >= 4 * small {
            (Kept::Filters, if tiles >= 8 * small { small } else { small / 2 })
        } else {
            (Kept::Images, tiles.div_ceil(tiles.div_ceil(128).max(1)).max(1))
        };
        let depth = match kept {
            Kept::Filters => c,
            Kept::Images => c.min(if chunk <= 32 { 64 } else { 32 }),
        };
        Correlation { tile, n, x, y, turned, tiles, kept, chunk, depth }
    }

    fn chunks(&self) -> usize {
        self.tiles.div_ceil(self.chunk)
    }

    fn output_blocks(&self) -> usize {
        self.y.channels.div_ceil(WIDTH)
    }

    fn channel_blocks(&self) -> usize {
        self.x.channels.div_ceil(self.depth)
    }

    /// Floats of a frequency of a chunk of images, a block of filters, and their product.
    fn image_plane(&self) -> usize {
        self.chunk * self.depth + PADDING
    }

    fn filter_plane(&self) -> usize {
        self.depth * WIDTH + PADDING
    }

    fn sum_plane(&self) -> usize {
        self.chunk * WIDTH + PADDING
    }

    fn rooms(&self) -> [Room; 2] {
        let room = |slots, group| match self.kept {
            Kept::Filters => Room { slots: self.chunks().min(slots), group: self.chunks() },
            Kept::Images => {
                let group = self.chunks().clamp(1, group);
                Room { slots: (group * self.output_blocks()).min(slots), group }
            }
        };
        [room(SLOTS[0], 1), room(SLOTS[1], GROUP)]
    }

    fn layout(&self, room: Room) -> Layout {
        let frequencies = self.tile.frequencies();
        let (filters, images) = match self.kept {
            Kept::Filters => (self.output_blocks(), room.slots),
            Kept::Images => (room.slots, room.group),
        };
        let zeros = whole(self.x.channels);
        let filters = filters * frequencies * self.filter_plane();
        let images = images * self.channel_blocks() * frequencies * self.image_plane();
        let sums = room.slots * frequencies * self.sum_plane();
        Layout {
            filters: zeros,
            images: zeros + filters,
            sums: zeros + filters + images,
            end: zeros + filters + images + sums,
        }
    }
}

impl Kernel for Correlation {
    fn workspaces(&self) -> Vec<usize> {
        let mut sizes = self.rooms().map(|room| self.layout(room).end).to_vec();
        sizes.dedup();
        sizes
    }

    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        let (x, w, bias) = match *reads {
            [x, w] => (x, w, None),
            [x, w, bias] => (x, w, Some(bias)),
            _ => unreachable!("images, filters and perhaps a bias"),
        };
        let [y] = writes else { unreachable!("one write") };
        let (c, k) = (self.x.channels, self.y.channels);
        assert!(x.len() == self.x.floats(self.n) && y.len() == self.y.floats(self.n) && w.len() == 9 * c * k);
        assert!(bias.is_none_or(|bias| bias.len() == k));
        let found = self.rooms().into_iter().find(|&room| self.layout(room).end == workspace.len());
        let room = found.expect("a workspace it asked for");
        workspace[..whole(c)].fill(0.0);
        let (y, workspace) = (Shared::new(y), Shared::new(workspace));
        let call = Call { plan: self, x, w, bias, y, workspace, layout: self.layout(room) };
        let isa = cx.isa;
        if self.kept == Kept::Filters {
            let vectors = c.div_ceil(LANES);
            cx.pool.run(self.output_blocks() * vectors, &|part| {
                isa.run(KeepFilters { call, block: part / vectors, vector: part % vectors });
            });
        }
        // Tiles to be transformed at once: some microseconds of work.
        let some = (1024 / c).clamp(1, 16);
        for first in (0..self.chunks()).step_by(room.group) {
            let chunks = room.group.min(self.chunks() - first);
            let mut units = chunks;
            if self.kept == Kept::Images {
                let from = first * self.chunk;
                let to = self.tiles.min((first + chunks) * self.chunk);
                cx.pool.run((to - from).div_ceil(some), &|part| {
                    let from = from + part * some;
                    isa.run(KeepImages { call, first, from, to: to.min(from + some) });
                });
                units = chunks * self.output_blocks();
            }
            let next = AtomicUsize::new(0);
            // Neighbours share pixels, so a thread takes some of them at once.
            let run = (units / RUNS).max(1);
            cx.pool.run(room.slots, &|slot| {
                isa.run(Multiply { call, first, slot, next: &next, units, run });
            });
        }
    }
}

/// A run of the kernel.
#[derive(Clone, Copy)]
struct Call<'a> {
    plan: &'a Correlation,
    x: &'a [f32],
    w: &'a [f32],
    bias: Option<&'a [f32]>,
    y: Shared<'a>,
    workspace: Shared<'a>,
    layout: Layout,
}

/// Makes 16 channels of a block of filters.
struct KeepFilters<'a> {
    call: Call<'a>,
    block: usize,
    vector: usize,
}

impl Body for KeepFilters<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let KeepFilters { call, block, vector } = self;
        let (width, channel) = (call.width(block), vector * LANES);
        let to = call.filters(block).wrapping_add(channel * width);
        // SAFETY: nobody else writes these channels.
        unsafe {
            match call.plan.tile {
                Tile::F2 => call.make_filters::<S, F<2>>(s, block, channel, to),
                Tile::F4 => call.make_filters::<S, F<4>>(s, block, channel, to),
            }
        }
    }
}

/// Transforms tiles `from..to`, of the group that begins with chunk `first`.
struct KeepImages<'a> {
    call: Call<'a>,
    first: usize,
    from: usize,
    to: usize,
}

impl Body for KeepImages<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let chunk = self.call.plan.chunk;
        for tile in self.from..self.to {
            let to = self.call.images(tile / chunk - self.first);
            // SAFETY: nobody else writes this tile.
            unsafe {
                match self.call.plan.tile {
                    Tile::F2 => self.call.make_image::<S, F<2>, 4>(s, tile, to),
                    Tile::F4 => self.call.make_image::<S, F<4>, 6>(s, tile, to),
                }
            }
        }
    }
}

/// Takes `run` units after another until `units` are done: a chunk, or a chunk and a block of outputs.
struct Multiply<'a> {
    call: Call<'a>,
    first: usize,
    slot: usize,
    next: &'a AtomicUsize,
    units: usize,
    run: usize,
}

impl Body for Multiply<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let run = self.run;
        loop {
            let first = self.next.fetch_add(run, Ordering::Relaxed);
            if first >= self.units {
                break;
            }
            for unit in first..self.units.min(first + run) {
                // SAFETY: nobody else has the slot, or writes the outputs of the unit.
                unsafe {
                    match self.call.plan.tile {
                        Tile::F2 => self.unit::<S, F<2>, 4>(s, unit),
                        Tile::F4 => self.unit::<S, F<4>, 6>(s, unit),
                    }
                }
            }
        }
    }
}

impl Multiply<'_> {
    /// # Safety
    /// Nobody else has the slot, or writes the outputs of the unit.
    #[inline(always)]
    unsafe fn unit<S: Simd, M: Maps, const SIZE: usize>(&self, s: S, unit: usize) {
        let Multiply { call, first, slot, .. } = *self;
        let (plan, blocks) = (call.plan, call.plan.output_blocks());
        let (chunk, images, from, to) = match plan.kept {
            Kept::Filters => (unit, call.images(slot), 0, blocks),
            Kept::Images => {
                (first + unit / blocks, call.images(unit / blocks), unit % blocks, unit % blocks + 1)
            }
        };
        let tiles = plan.chunk * chunk..plan.tiles.min(plan.chunk * (chunk + 1));
        // SAFETY: as the caller promises; what is kept was made before.
        unsafe {
            if plan.kept == Kept::Filters {
                for tile in tiles.clone() {
                    call.make_image::<S, M, SIZE>(s, tile, images);
                }
            }
            for block in from..to {
                for channel in (0..plan.x.channels).step_by(plan.depth) {
                    let filters = match plan.kept {
                        Kept::Filters => call.filters(block),
                        Kept::Images => {
                            let filters = call.filters(slot);
                            let last = plan.x.channels.min(channel + plan.depth);
                            for c in (channel..last).step_by(LANES) {
                                let to = filters.add((c - channel) * call.width(block));
                                call.make_filters::<S, M>(s, block, c, to);
                            }
                            filters
                        }
                    };
                    call.multiply(s, tiles.len(), images, filters, slot, block, channel);
                }
                for (row, tile) in tiles.clone().enumerate() {
                    call.finish::<S, M>(s, row, tile, slot, block);
                }
            }
        }
    }
}

impl Call<'_> {
    /// Outputs of a block, in whole vectors.
    #[inline(always)]
    fn width(&self, block: usize) -> usize {
        whole(self.plan.y.channels - block * WIDTH).min(WIDTH)
    }

    /// The filters of a block, if they are kept, or of a slot.
    #[inline(always)]
    fn filters(&self, at: usize) -> *mut f32 {
        let plan = self.plan;
        self.workspace.at(self.layout.filters + at * plan.tile.frequencies() * plan.filter_plane())
    }

    /// The images of a chunk of the group, if they are kept, or of a slot.
    #[inline(always)]
    fn images(&self, at: usize) -> *mut f32 {
        let plan = self.plan;
        let floats = plan.channel_blocks() * plan.tile.frequencies() * plan.image_plane();
        self.workspace.at(self.layout.images + at * floats)
    }

    #[inline(always)]
    fn sums(&self, slot: usize) -> *mut f32 {
        let plan = self.plan;
        self.workspace.at(self.layout.sums + slot * plan.tile.frequencies() * plan.sum_plane())
    }

    /// Transforms channels `channel..channel + 16` of a block of filters: a row of outputs each.
    ///
    /// # Safety
    /// `to` has room for them, and nobody else writes them.
    #[inline(always)]
    unsafe fn make_filters<S: Simd, M: Maps>(&self, s: S, block: usize, channel: usize, to: *mut f32) {
        let (c, k) = (self.plan.x.channels, self.plan.y.channels);
        let (width, plane) = (self.width(block), self.plan.filter_plane());
        let w = self.w.as_ptr();
        let rows = LANES.min(c - channel);
        let mut turned = [[s.splat(0.0); LANES]; 9];
        let mut places: Places = [[std::ptr::null(); SIDE]; SIDE];
        for left in (0..width).step_by(LANES) {
            let output = block * WIDTH + left;
            let outputs = LANES.min(k - output);
            // SAFETY: the filters are as large as the kernel saw; `turned` has a vector a channel.
            unsafe {
                if self.plan.turned {
                    for (tap, channels) in turned.iter_mut().enumerate() {
                        *channels = [s.splat(0.0); LANES];
                        for (i, row) in channels.iter_mut().enumerate().take(outputs) {
                            *row = s.load_up_to(w.add(((8 - tap) * k + output + i) * c + channel), rows);
                        }
                        *channels = s.transpose(*channels);
                    }
                }
                for tap in 0..9 {
                    places[tap / 3][tap % 3] = if self.plan.turned {
                        turned[tap].as_ptr().cast()
                    } else {
                        w.add((tap * c + channel) * k + output)
                    };
                }
                let (row, n) = if self.plan.turned { (LANES, LANES) } else { (k, outputs) };
                for i in 0..rows {
                    to_planes::<S, M::Filter>(s, &places, i * row, n, to.add(i * width + left), plane);
                }
            }
        }
    }

    /// Transforms a tile of images, which lie at `to`.
    ///
    /// # Safety
    /// Nobody else writes it.
    #[inline(always)]
    unsafe fn make_image<S: Simd, M: Maps, const SIZE: usize>(&self, s: S, tile: usize, to: *mut f32) {
        let plan = self.plan;
        let places = plan.x.window::<SIZE>(self.x, tile, self.workspace.at(0));
        let (c, plane) = (plan.x.channels, plan.image_plane());
        let row = tile % plan.chunk * plan.depth;
        // SAFETY: the images are as large as the kernel saw, and so are the zeros.
        unsafe {
            for channel in (0..c).step_by(LANES) {
                let block = channel / plan.depth * plan.tile.frequencies() * plane;
                let to = to.add(block + row + channel % plan.depth);
                to_planes::<S, M::Input>(s, &places, channel, c - channel, to, plane);
            }
        }
    }

    /// Adds the products of `tiles` tiles with filters, from `channel` on, to the sums of a slot.
    ///
    /// # Safety
    /// Both have been made, and nobody else has the slot.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the three matrices and where they are cut")]
    unsafe fn multiply<S: Simd>(
        &self,
        s: S,
        tiles: usize,
        images: *const f32,
        filters: *const f32,
        slot: usize,
        block: usize,
        channel: usize,
    ) {
        let (plan, width) = (self.plan, self.width(block));
        let frequencies = plan.tile.frequencies();
        let images = images.wrapping_add(channel / plan.depth * frequencies * plan.image_plane());
        let sums = self.sums(slot);
        for frequency in 0..frequencies {
            // SAFETY: as the caller promises.
            unsafe {
                let product = Product {
                    a: images.add(frequency * plan.image_plane()),
                    a_row: plan.depth,
                    a_step: 1,
                    b: filters.add(frequency * plan.filter_plane()),
                    b_row: width,
                    c: sums.add(frequency * plan.sum_plane()),
                    c_row: width,
                    depth: plan.depth.min(plan.x.channels - channel),
                    resume: channel > 0,
                };
                product.run(s, tiles, width / LANES);
            }
        }
    }

    /// Writes a block of outputs of a tile from row `row` of the sums.
    ///
    /// # Safety
    /// The sums are complete, and nobody else writes these outputs.
    #[inline(always)]
    unsafe fn finish<S: Simd, M: Maps>(&self, s: S, row: usize, tile: usize, slot: usize, block: usize) {
        let (plan, width) = (self.plan, self.width(block));
        let target = plan.y.target(self.y.at(0), tile);
        for left in (0..width).step_by(LANES) {
            let output = block * WIDTH + left;
            let n = plan.y.channels - output;
            let mut target = target;
            // SAFETY: as the caller promises; the bias has as many floats as there are outputs.
            unsafe {
                target.to = target.to.add(output);
                let from = self.sums(slot).add(row * width + left);
                let mut shift = None;
                if let Some(bias) = self.bias {
                    shift = Some(s.load_up_to(bias.as_ptr().add(output), n));
                }
                from_planes::<S, M::Output>(s, from, plan.sum_plane(), target, n, shift);
            }
        }
    }
}
