//! Batches, made ahead of their use.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use super::draw::{Draw, Purpose};
use super::{Augment, Dataset, Error, Normalization};

/// How batches are made.
#[derive(Clone, Debug, PartialEq)]
pub struct LoaderOptions {
    /// The number of examples of a batch.
    pub batch: usize,
    /// Where the order of the examples and their changes come from.
    pub seed: u64,
    /// Whether each epoch has an order of its own; else it is that of the data.
    pub shuffle: bool,
    /// Whether what remains at the end of an epoch is a smaller batch; else it is left out.
    pub partial: bool,
    /// Random changes of images.
    pub augment: Augment,
    /// How inputs are normalised, if they are.
    pub normalization: Option<Normalization>,
    /// How many epochs there are in all; without end by default.
    pub epochs: Option<u64>,
    /// How many batches are made ahead, 1 to 64. This many and the one in use are all the memory
    /// that batches take.
    pub ahead: usize,
}

impl Default for LoaderOptions {
    fn default() -> LoaderOptions {
        LoaderOptions {
            batch: 32,
            seed: 0,
            shuffle: true,
            partial: false,
            augment: Augment::default(),
            normalization: None,
            epochs: None,
            ahead: 3,
        }
    }
}

/// Examples of one step of training.
#[derive(Debug, Default)]
pub struct Batch {
    /// `[len, …]` with the input shape of the data set.
    pub inputs: Vec<f32>,
    /// `[len, width]`: a class, some values, or a token for each position.
    pub targets: Vec<f32>,
    /// The number of examples.
    pub len: usize,
    /// The epoch, from 0.
    pub epoch: u64,
    /// The number of the batch in its epoch, from 0.
    pub index: u64,
    /// The place of the first example in its epoch.
    pub first_example: u64,
}

/// A thread that makes batches, and the place where they are fetched.
///
/// Every batch is a function of the data set, the options, its epoch and its number. Memory is taken
/// when the first batches are made, and then used again; only the decoders of compressed images ask
/// for more. The thread ends with the loader.
#[derive(Debug)]
pub struct Loader {
    thread: Option<Connection>,
    /// The batch in use.
    current: Batch,
    batches_per_epoch: u64,
}

#[derive(Debug)]
struct Connection {
    full: Receiver<Result<Batch, Error>>,
    free: SyncSender<Batch>,
    handle: JoinHandle<()>,
}

impl Loader {
    /// Starts to load the first epoch.
    ///
    /// # Errors
    /// Those of [`start_at`](Loader::start_at).
    pub fn start(dataset: &Dataset, options: &LoaderOptions) -> Result<Loader, Error> {
        Loader::start_at(dataset, options, 0, 0)
    }

    /// Starts to load with a batch of an epoch, both counted from 0: the batches are those of a
    /// loader that was not interrupted before it.
    ///
    /// # Errors
    /// [`Error::TooFew`] if the data set has less than a batch, [`Error::Option`] if an option does
    /// not suit it, [`Error::Thread`] if there is no thread.
    pub fn start_at(
        dataset: &Dataset,
        options: &LoaderOptions,
        epoch: u64,
        index: u64,
    ) -> Result<Loader, Error> {
        if options.batch == 0 {
            return Err(Error::Option { option: "batch", reason: "it must be at least 1".into() });
        }
        if options.batch > dataset.len() && !options.partial {
            return Err(Error::TooFew {
                path: dataset.path().to_owned(),
                examples: dataset.len(),
                wanted: options.batch,
                what: "a batch",
            });
        }
        options.augment.check(dataset)?;
        options.normalization.as_ref().map_or(Ok(()), |normalization| normalization.check(dataset))?;
        let maker = Maker::new(dataset.clone(), options.clone());
        let batches_per_epoch = maker.batches_per_epoch();
        let (epoch, index) = (epoch.saturating_add(index / batches_per_epoch), index % batches_per_epoch);

        let quota = options.ahead.clamp(1, 64);
        // Both have room for all batches there are, so sending never waits.
        let (send_full, full) = sync_channel(quota + 2);
        let (free, receive_free) = sync_channel(quota + 2);
        let handle = thread::Builder::new()
            .name("pleach-loader".into())
            .spawn(move || maker.run(epoch, index, &receive_free, &send_full))
            .map_err(Error::Thread)?;
        for _ in 0..quota {
            // There is room, and the thread needs one before it does anything.
            let _ = free.send(Batch::default());
        }
        Ok(Loader {
            thread: Some(Connection { full, free, handle }),
            current: Batch::default(),
            batches_per_epoch,
        })
    }

    /// How many batches an epoch has.
    pub fn batches_per_epoch(&self) -> u64 {
        self.batches_per_epoch
    }

    /// The next batch; `None` after the last epoch and after an error.
    ///
    /// # Errors
    /// Those of reading an example: a file that cannot be read or is damaged.
    ///
    /// # Panics
    /// If the thread did.
    pub fn next_batch(&mut self) -> Result<Option<&Batch>, Error> {
        let Some(thread) = &self.thread else { return Ok(None) };
        match thread.full.recv() {
            Ok(Ok(batch)) => {
                let used = std::mem::replace(&mut self.current, batch);
                // The thread may have ended with this batch.
                let _ = thread.free.send(used);
                Ok(Some(&self.current))
            }
            Ok(Err(error)) => {
                self.end().unwrap_or_else(|panic| resume_unwind(panic));
                Err(error)
            }
            Err(_) => {
                self.end().unwrap_or_else(|panic| resume_unwind(panic));
                Ok(None)
            }
        }
    }

    /// Waits until the thread has ended, which it does after the batch that it is making, as nobody
    /// is at the other ends of its channels.
    fn end(&mut self) -> thread::Result<()> {
        self.thread.take().map_or(Ok(()), |Connection { full, free, handle }| {
            drop((full, free));
            handle.join()
        })
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        // Whatever it was, it is of no use to anybody any more.
        let _ = self.end();
    }
}

/// Makes batches.
#[derive(Debug)]
struct Maker {
    dataset: Dataset,
    options: LoaderOptions,
    /// The examples in the order of `epoch`.
    order: Vec<usize>,
    epoch: Option<u64>,
    /// An image before it is changed.
    image: Vec<f32>,
}

impl Maker {
    fn new(dataset: Dataset, options: LoaderOptions) -> Maker {
        Maker { order: (0..dataset.len()).collect(), dataset, options, epoch: None, image: Vec::new() }
    }

    fn batches_per_epoch(&self) -> u64 {
        let (len, batch) = (self.dataset.len() as u64, self.options.batch as u64);
        if self.options.partial { len.div_ceil(batch) } else { len / batch }
    }

    /// Makes one batch after another until the loader is gone, there is no more, or one fails.
    fn run(
        mut self,
        epoch: u64,
        index: u64,
        free: &Receiver<Batch>,
        full: &SyncSender<Result<Batch, Error>>,
    ) {
        let (mut epoch, mut index) = (epoch, index);
        while self.options.epochs.is_none_or(|epochs| epoch < epochs) {
            let Ok(mut batch) = free.recv() else { return };
            let made = self.make(epoch, index, &mut batch);
            let failed = made.is_err();
            if full.send(made.map(|()| batch)).is_err() || failed {
                return;
            }
            index += 1;
            if index == self.batches_per_epoch() {
                (epoch, index) = (epoch.saturating_add(1), 0);
            }
        }
    }

    /// Makes one batch.
    fn make(&mut self, epoch: u64, index: u64, batch: &mut Batch) -> Result<(), Error> {
        let Maker { dataset, options, order, epoch: ordered, image } = self;
        if options.shuffle && *ordered != Some(epoch) {
            for (place, example) in order.iter_mut().enumerate() {
                *example = place;
            }
            Draw::new(Purpose::Order, [options.seed, epoch]).shuffle(order);
            *ordered = Some(epoch);
        }
        let first = usize::try_from(index).expect("below the number of batches") * options.batch;
        let examples = &order[first..order.len().min(first.saturating_add(options.batch))];
        let (input_len, target_len) = (dataset.input_len(), dataset.target_len());
        let full = order.len().min(options.batch);
        resize(&mut batch.inputs, examples.len(), full, input_len)?;
        resize(&mut batch.targets, examples.len(), full, target_len)?;
        (batch.len, batch.epoch, batch.index, batch.first_example) =
            (examples.len(), epoch, index, first as u64);
        let rows = batch.inputs.chunks_exact_mut(input_len).zip(batch.targets.chunks_exact_mut(target_len));
        let normalization = options.normalization.as_ref();
        for (&example, (input, target)) in examples.iter().zip(rows) {
            match dataset.input_shape() {
                &[height, width, channels] if options.augment != Augment::default() => {
                    image.resize(input_len, 0.0);
                    dataset.read(example, image, target)?;
                    let draw = Draw::of_example(options.seed, epoch, example);
                    options.augment.apply(draw, image, [height, width, channels], normalization, input);
                }
                _ => {
                    dataset.read(example, input, target)?;
                    if let Some(normalization) = normalization {
                        normalization.apply(input);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Makes room for `rows` of `width` floats, at first for `full` rows.
fn resize(floats: &mut Vec<f32>, rows: usize, full: usize, width: usize) -> Result<(), Error> {
    let room = full.saturating_mul(width).saturating_sub(floats.len());
    floats.try_reserve_exact(room).map_err(|_| {
        let reason = format!("the system does not give memory for {full} examples of {width} floats");
        Error::Option { option: "batch", reason }
    })?;
    floats.resize(rows * width, 0.0);
    Ok(())
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the results are exact")]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::data::dataset::{Base, Source, Target};
    use crate::data::{Options, open, testing};

    /// Epoch, number and bits of the next batches.
    fn batches(loader: &mut Loader, count: usize) -> Vec<(u64, u64, Vec<u32>, Vec<u32>)> {
        let bits = |floats: &[f32]| floats.iter().map(|float| float.to_bits()).collect();
        (0..count)
            .map(|_| {
                let batch = loader.next_batch().unwrap().unwrap();
                (batch.epoch, batch.index, bits(&batch.inputs), bits(&batch.targets))
            })
            .collect()
    }

    #[test]
    fn every_example_comes_once_an_epoch_in_another_order() {
        let dataset = testing::numbers(10);
        let options = LoaderOptions { batch: 4, partial: true, epochs: Some(3), ..LoaderOptions::default() };
        let mut loader = Loader::start(&dataset, &options).unwrap();
        let mut epochs = vec![Vec::new(); 3];
        let mut firsts = Vec::new();
        while let Some(batch) = loader.next_batch().unwrap() {
            assert_eq!((batch.inputs.len(), batch.targets.len()), (batch.len, batch.len));
            assert!(batch.inputs.iter().zip(&batch.targets).all(|(input, target)| *input == -target));
            epochs[usize::try_from(batch.epoch).unwrap()].extend(batch.inputs.iter().map(|x| x.to_bits()));
            firsts.push((batch.index, batch.first_example, batch.len));
        }
        assert_eq!(firsts[..3], [(0, 0, 4), (1, 4, 4), (2, 8, 2)]);
        assert_eq!((firsts.len(), loader.batches_per_epoch()), (9, 3));
        assert!(epochs.iter().all(|epoch| epoch.iter().collect::<BTreeSet<_>>().len() == 10));
        assert!(epochs[0] != epochs[1] && epochs[1] != epochs[2]);
        assert!(loader.next_batch().unwrap().is_none());
    }

    #[test]
    fn the_remainder_is_dropped_unless_asked_for() {
        let options = LoaderOptions { batch: 4, shuffle: false, ..LoaderOptions::default() };
        let mut loader = Loader::start(&testing::numbers(10), &options).unwrap();
        assert_eq!(loader.batches_per_epoch(), 2);
        let firsts: Vec<f32> = (0..4).map(|_| loader.next_batch().unwrap().unwrap().inputs[0]).collect();
        assert_eq!(firsts, [0.0, 4.0, 0.0, 4.0]);
    }

    #[test]
    fn a_run_that_starts_again_gets_the_same_batches() {
        let digits = open("digits", &Options::default()).unwrap().split(1700, 3).unwrap().0;
        let options = LoaderOptions {
            batch: 20,
            seed: 5,
            augment: Augment { crop_padding: 1, flip: true, cutout: 3 },
            normalization: Some(Normalization::measure(&digits).unwrap()),
            ..LoaderOptions::default()
        };
        let whole = batches(&mut Loader::start(&digits, &options).unwrap(), 14);
        assert_eq!(whole[13].0, 3);
        for from in 0..14 {
            let place = &whole[from];
            for ahead in [0, 1, 7] {
                let options = LoaderOptions { ahead, ..options.clone() };
                let mut loader = Loader::start_at(&digits, &options, place.0, place.1).unwrap();
                assert_eq!(batches(&mut loader, 14 - from), whole[from..], "from {from}");
            }
        }
        // A place past the end of an epoch is the one in the next.
        let mut late = Loader::start_at(&digits, &options, 0, 4).unwrap();
        assert_eq!(batches(&mut late, 1), whole[4..5]);
        let other = LoaderOptions { seed: 6, ..options };
        assert_ne!(batches(&mut Loader::start(&digits, &other).unwrap(), 14), whole);
    }

    #[test]
    fn changes_belong_to_the_example_and_the_epoch_and_not_to_the_batch() {
        let digits = open("digits", &Options::default()).unwrap().split(1797 - 24, 3).unwrap().0;
        let images = |batch, shuffle, epoch| -> BTreeSet<Vec<u32>> {
            let augment = Augment { crop_padding: 2, flip: true, cutout: 2 };
            let options = LoaderOptions { batch, shuffle, augment, ..LoaderOptions::default() };
            let mut loader = Loader::start_at(&digits, &options, epoch, 0).unwrap();
            let all = batches(&mut loader, 24 / batch);
            all.iter().flat_map(|batch| batch.2.chunks(64).map(<[u32]>::to_vec)).collect()
        };
        assert_eq!(images(4, true, 0), images(12, false, 0));
        assert_ne!(images(4, true, 0), images(4, true, 1));
    }

    #[test]
    fn memory_is_used_again() {
        let options = LoaderOptions { batch: 3, partial: true, ahead: 2, ..LoaderOptions::default() };
        let mut loader = Loader::start(&testing::numbers(10), &options).unwrap();
        let mut places = BTreeSet::new();
        for _ in 0..100 {
            let batch = loader.next_batch().unwrap().unwrap();
            places.insert(batch.inputs.as_ptr().addr());
        }
        // Those made ahead and the one in use.
        assert!(places.len() <= 3, "{places:?}");
    }

    #[test]
    fn what_cannot_be_loaded_is_an_error() {
        let dataset = testing::numbers(10);
        let standard = LoaderOptions::default();
        let large = Loader::start(&dataset, &LoaderOptions { batch: 11, ..standard.clone() });
        let error = large.unwrap_err().to_string();
        assert_eq!(error, "numbers has 10 examples, and 11 are needed for a batch; ask for fewer");
        let partial = LoaderOptions { batch: 11, partial: true, ..standard.clone() };
        assert_eq!(Loader::start(&dataset, &partial).unwrap().next_batch().unwrap().unwrap().len, 10);
        let none = Loader::start(&dataset, &LoaderOptions { batch: 0, ..standard.clone() });
        assert!(matches!(none, Err(Error::Option { option: "batch", .. })));
        let augment = Augment { flip: true, ..Augment::default() };
        let flipped = Loader::start(&dataset, &LoaderOptions { batch: 1, augment, ..standard });
        assert!(matches!(flipped, Err(Error::Option { option: "augment", .. })));
    }

    /// Ten examples, of which reading the sixth fails or panics.
    #[derive(Debug)]
    struct Broken {
        panics: bool,
    }

    impl Source for Broken {
        fn len(&self) -> usize {
            10
        }

        fn read(&self, index: usize, _: &mut [f32], _: &mut [f32]) -> Result<(), Error> {
            assert!(!self.panics || index != 5, "the sixth");
            if index == 5 { Err(Error::record(Path::new("file"), "record 5", "damaged")) } else { Ok(()) }
        }
    }

    fn broken(panics: bool) -> Loader {
        let base = Base {
            format: "test",
            path: "broken".into(),
            input: vec![1],
            target: Target::Values(1),
            source: Box::new(Broken { panics }),
        };
        let options = LoaderOptions { batch: 2, shuffle: false, ..LoaderOptions::default() };
        Loader::start(&Dataset::new(base).unwrap(), &options).unwrap()
    }

    #[test]
    fn an_error_in_the_thread_arrives_after_the_batches_before_it() {
        let mut loader = broken(false);
        assert!(loader.next_batch().unwrap().is_some());
        assert!(loader.next_batch().unwrap().is_some());
        assert_eq!(loader.next_batch().unwrap_err().to_string(), "file, record 5: damaged");
        assert!(loader.next_batch().unwrap().is_none());
    }

    #[test]
    #[should_panic(expected = "the sixth")]
    fn a_panic_in_the_thread_is_one_of_the_caller() {
        let mut loader = broken(true);
        while loader.next_batch().unwrap().is_some() {}
    }

    #[test]
    fn a_loader_that_is_dropped_ends_its_thread() {
        // `drop` waits for the thread, so this returns only if the thread does end, with an example
        // of every state: nothing fetched, some fetched, and all that there was.
        let dataset = testing::numbers(10);
        for fetched in [0, 1, 5] {
            let options = LoaderOptions { batch: 2, epochs: Some(1), ahead: 100, ..LoaderOptions::default() };
            let mut loader = Loader::start(&dataset, &options).unwrap();
            batches(&mut loader, fetched);
            drop(loader);
            assert!(dataset.is_only_one());
        }
    }
}
