//! What kernels are: loops over memory that the caller laid out.

#![expect(unsafe_code, reason = "parts of a kernel write different places of one slice")]

use std::fmt;
use std::marker::PhantomData;

use crate::{Isa, Pool};

/// One computation on operands of fixed sizes: reads some ranges of floats and writes others.
///
/// A kernel is built once for its shapes, with every index list it needs, and never allocates when
/// it runs. Its results depend on what it reads and on [`Stream`] alone: not on threads, on the
/// instruction set, on how much workspace it gets, nor on what is in the memory that it writes.
pub trait Kernel: fmt::Debug + Send + Sync {
    /// The workspaces it can work with, in floats, ascending; more is faster.
    fn workspaces(&self) -> Vec<usize> {
        vec![0]
    }

    /// Which reads may lie in the same memory as which writes: pairs of (read, write).
    ///
    /// Where they do, the kernel finds an empty slice for the read, and the values to be read in
    /// the slice to be written.
    fn in_place(&self) -> &'static [(usize, usize)] {
        &[]
    }

    /// Computes `writes` from `reads`. The length of `workspace` is one of
    /// [`workspaces`](Kernel::workspaces), and there is anything in it.
    fn run(
        &self,
        context: &mut Context<'_>,
        reads: &[&[f32]],
        writes: &mut [&mut [f32]],
        workspace: &mut [f32],
    );
}

/// What a kernel runs on.
#[derive(Debug)]
pub struct Context<'a> {
    /// The threads.
    pub pool: &'a mut Pool,
    /// The instruction set.
    pub isa: Isa,
    /// Where random numbers come from.
    pub stream: Stream,
}

/// The place in all of training to which a kernel's random numbers belong.
///
/// Numbers are a function of this and of the element, so that a kernel that runs again draws the
/// same ones, and an example gets the same ones whichever worker computes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// The seed of the whole training.
    pub seed: u64,
    /// The number of the step.
    pub step: u64,
    /// The place of the first example of this batch in the global batch.
    pub first_example: u64,
}

impl Stream {
    /// The place for which definitions say what random operations give; the place of such an
    /// operation in its network is then 0.
    pub(crate) const EXAMPLE: Stream = Stream { seed: 5, step: 7, first_example: 3 };
}

/// Memory that several parts of a kernel write at different places.
///
/// Cheap to copy into every part; the borrow lasts as long as the kernel has the memory.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'a> {
    start: *mut f32,
    len: usize,
    memory: PhantomData<&'a mut [f32]>,
}

// SAFETY: whoever takes a slice or a pointer promises that no other part touches those places.
unsafe impl Send for Shared<'_> {}
// SAFETY: as above.
unsafe impl Sync for Shared<'_> {}

impl<'a> Shared<'a> {
    pub(crate) fn new(memory: &'a mut [f32]) -> Shared<'a> {
        Shared { start: memory.as_mut_ptr(), len: memory.len(), memory: PhantomData }
    }

    /// The floats `from..to`.
    ///
    /// # Safety
    /// No other part reads or writes them meanwhile.
    ///
    /// # Panics
    /// If there are not that many.
    #[inline(always)]
    pub(crate) unsafe fn slice(self, from: usize, to: usize) -> &'a mut [f32] {
        assert!(from <= to && to <= self.len, "{from}..{to} of {} floats", self.len);
        // SAFETY: in bounds; the caller promises that nobody else has these places.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(from), to - from) }
    }

    /// A pointer to the float at `at` of `read`, or of this memory where the read is empty: in place,
    /// what is read lies where the result goes.
    ///
    /// # Panics
    /// If there is none.
    #[inline(always)]
    pub(crate) fn source(self, read: &[f32], at: usize) -> *const f32 {
        if read.is_empty() { self.at(at).cast_const() } else { read[at..].as_ptr() }
    }

    /// A pointer to the float at `at`, which may be one past the end.
    #[inline(always)]
    pub(crate) fn at(self, at: usize) -> *mut f32 {
        debug_assert!(at <= self.len, "{at} of {} floats", self.len);
        // SAFETY: inside the slice or one past its end.
        unsafe { self.start.add(at) }
    }
}
