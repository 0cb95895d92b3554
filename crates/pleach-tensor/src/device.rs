//! Where kernels run: a device has memory that is laid out once, and runs kernels on ranges of it.

use std::num::NonZeroUsize;
use std::ops::Range;

use crate::{Arena, Context, Error, Isa, Kernel, Pool, Stream};

/// The most operands a kernel may read, and the most it may write.
pub const MAX_OPERANDS: usize = 12;

/// A machine part with memory of its own that runs kernels on it.
pub trait Device: Send {
    /// How many floats its memory holds.
    fn len(&self) -> usize;

    /// Whether it has no memory.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs `kernel` on ranges of its memory.
    ///
    /// # Panics
    /// If `operands` lie beyond the memory.
    fn run(&mut self, kernel: &dyn Kernel, operands: &Operands, stream: Stream);

    /// Copies `values` to the floats from `at` on.
    ///
    /// # Panics
    /// If they lie beyond the memory.
    fn write(&mut self, at: usize, values: &[f32]);

    /// Copies the floats from `at` on to `values`.
    ///
    /// # Panics
    /// If they lie beyond the memory.
    fn read(&self, at: usize, values: &mut [f32]);
}

/// The ranges of memory that a call of a kernel reads and writes.
///
/// Made once by [`Operands::new`], which checks that no write overlaps anything that it must not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operands {
    reads: Vec<Range<usize>>,
    writes: Vec<Range<usize>>,
    workspace: Range<usize>,
    /// The highest end of all ranges.
    end: usize,
}

impl Operands {
    /// Ranges of floats for a call of `kernel`. A read that is the same range as a write is given
    /// to the kernel as in place.
    ///
    /// # Errors
    /// [`Error::Operands`] if a write overlaps another range, save for pairs that the kernel allows
    /// ([`Kernel::in_place`]), if there are more than [`MAX_OPERANDS`], or if the workspace has
    /// another size than the kernel asks for.
    pub fn new(
        kernel: &dyn Kernel,
        reads: Vec<Range<usize>>,
        writes: Vec<Range<usize>>,
        workspace: Range<usize>,
    ) -> Result<Operands, Error> {
        let error = |reason: String| Error::Operands { kernel: format!("{kernel:?}"), reason };
        if reads.len() > MAX_OPERANDS || writes.len() > MAX_OPERANDS {
            return Err(error(format!("more than {MAX_OPERANDS} ranges")));
        }
        if !kernel.workspaces().contains(&workspace.len()) {
            return Err(error(format!("a workspace of {} floats", workspace.len())));
        }
        let all = || reads.iter().chain(&writes).chain([&workspace]);
        if let Some(range) = all().find(|range| range.start > range.end) {
            return Err(error(format!("the range {range:?} ends before it starts")));
        }
        let overlap = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
        for (w, write) in writes.iter().enumerate() {
            for (r, read) in reads.iter().enumerate() {
                let allowed = read == write && kernel.in_place().contains(&(r, w));
                if overlap(read, write) && !allowed {
                    return Err(error(format!("write {w} overlaps read {r}")));
                }
            }
            if writes[..w].iter().any(|other| overlap(other, write)) {
                return Err(error(format!("write {w} overlaps another write")));
            }
        }
        if all().take(reads.len() + writes.len()).any(|range| overlap(range, &workspace)) {
            return Err(error("the workspace overlaps an operand".into()));
        }
        let end = all().map(|range| range.end).max().unwrap_or(0);
        Ok(Operands { reads, writes, workspace, end })
    }
}

/// The processor: an arena of main memory and a pool of threads.
#[derive(Debug)]
pub struct Cpu {
    arena: Arena,
    pool: Pool,
    isa: Isa,
}

impl Cpu {
    /// A processor with `len` floats of memory that works with `threads` threads.
    ///
    /// # Errors
    /// [`Error::NoIsa`] if the machine does not have `isa`; [`Error::OutOfMemory`].
    pub fn new(len: usize, threads: NonZeroUsize, isa: Isa) -> Result<Cpu, Error> {
        if !Isa::available().contains(&isa) {
            return Err(Error::NoIsa { isa });
        }
        Ok(Cpu { arena: Arena::new(len)?, pool: Pool::new(threads), isa })
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// All of its memory.
    pub fn floats(&self) -> &[f32] {
        self.arena.floats()
    }
}

impl Device for Cpu {
    fn len(&self) -> usize {
        self.arena.floats().len()
    }

    #[expect(unsafe_code, reason = "slices of one arena that do not overlap")]
    fn run(&mut self, kernel: &dyn Kernel, operands: &Operands, stream: Stream) {
        let Operands { reads, writes, workspace, end } = operands;
        let floats = self.arena.floats_mut();
        assert!(*end <= floats.len(), "operands end at {end} of {} floats", floats.len());
        let start = floats.as_mut_ptr();
        let mut read_slices: [&[f32]; MAX_OPERANDS] = [&[]; MAX_OPERANDS];
        for (slice, range) in read_slices.iter_mut().zip(reads) {
            if !writes.contains(range) {
                // SAFETY: in bounds, and `Operands::new` saw that no write overlaps it.
                *slice = unsafe { std::slice::from_raw_parts(start.add(range.start), range.len()) };
            }
        }
        // SAFETY: in bounds, and `Operands::new` saw that nothing overlaps a write or the
        // workspace, save reads that are left empty above.
        let slice = |range: &Range<usize>| unsafe {
            std::slice::from_raw_parts_mut(start.add(range.start), range.len())
        };
        let mut write_slices: [&mut [f32]; MAX_OPERANDS] = std::array::from_fn(|_| &mut [][..]);
        for (to, range) in write_slices.iter_mut().zip(writes) {
            *to = slice(range);
        }
        let mut context = Context { pool: &mut self.pool, isa: self.isa, stream };
        kernel.run(
            &mut context,
            &read_slices[..reads.len()],
            &mut write_slices[..writes.len()],
            slice(workspace),
        );
    }

    fn write(&mut self, at: usize, values: &[f32]) {
        self.arena.floats_mut()[at..at + values.len()].copy_from_slice(values);
    }

    fn read(&self, at: usize, values: &mut [f32]) {
        values.copy_from_slice(&self.arena.floats()[at..at + values.len()]);
    }
}
