//! The packed row of a trial.
//!
//! Everything but its number, state and place among the events is one blob: a version byte, then
//! the fields in the order of [`Record`], optional ones behind a word of flags. Twenty floats make
//! about 220 bytes.

use pleach_search::{FailureClass, Measurement, Metric, Origin, Outcome, Value};

use crate::State;
use crate::codec::{Put, Take};
use crate::process::{Holder, Process, Term};

/// The only version of the blob so far.
const VERSION: u8 = 1;

/// Longer texts of errors are cut.
const MAX_ERROR_BYTES: usize = 2000;

/// The name of a stored metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// Index of a metric of the study.
    Declared(usize),
    /// Any other name.
    Other(String),
}

/// A trial as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    /// One native value for each parameter, inactive ones included.
    pub(crate) values: Vec<Value>,
    pub(crate) origin: Origin,
    /// How often it was handed out.
    pub(crate) attempt: u32,
    /// How often its worker was lost.
    pub(crate) lost: u32,
    pub(crate) created_ms: i64,
    pub(crate) started_ms: Option<i64>,
    pub(crate) ended_ms: Option<i64>,
    pub(crate) worker: Option<String>,
    /// Who has it, while it is running; who had it, while it waits because that one died.
    pub(crate) holder: Option<Holder>,
    /// Declared metrics in their order, then others by name.
    pub(crate) metrics: Vec<(Name, f64)>,
    pub(crate) sem: Option<f64>,
    pub(crate) cost: Option<f64>,
    pub(crate) features: Option<Vec<f64>>,
    pub(crate) failure: Option<FailureClass>,
    pub(crate) error: Option<String>,
    pub(crate) peak_rss_bytes: Option<u64>,
}

impl Record {
    /// A trial that was not handed out yet.
    pub(crate) fn new(values: &[Value], origin: Origin, created_ms: i64) -> Self {
        Self {
            values: values.to_vec(),
            origin,
            attempt: 0,
            lost: 0,
            created_ms,
            started_ms: None,
            ended_ms: None,
            worker: None,
            holder: None,
            metrics: Vec::new(),
            sem: None,
            cost: None,
            features: None,
            failure: None,
            error: None,
            peak_rss_bytes: None,
        }
    }

    /// What the method learns from a trial that is over; `None` for one that is not.
    pub(crate) fn outcome(&self, state: State, n_metrics: usize) -> Result<Option<Outcome>, &'static str> {
        Ok(Some(match state {
            State::Waiting | State::Running | State::Paused => return Ok(None),
            State::Done => {
                let mut metrics = Vec::with_capacity(n_metrics);
                for (name, value) in self.metrics.iter().take(n_metrics) {
                    if *name != Name::Declared(metrics.len()) {
                        break;
                    }
                    metrics.push(*value);
                }
                if metrics.len() < n_metrics {
                    return Err("it is done and lacks a metric");
                }
                if metrics.iter().any(|value| !value.is_finite()) {
                    return Err("it is done and a metric is not a finite number");
                }
                Outcome::Measured(Measurement {
                    metrics,
                    sem: self.sem,
                    cost: self.cost,
                    features: self.features.clone(),
                })
            }
            State::Infeasible => Outcome::Infeasible,
            State::Failed => Outcome::Failed(self.failure.ok_or("it has failed and does not say how")?),
            State::Timeout => Outcome::Failed(FailureClass::Timeout),
            State::Pruned | State::Lost | State::Cancelled => Outcome::Withdrawn,
        }))
    }

    /// The metrics with their names.
    pub(crate) fn named_metrics(&self, declared: &[Metric]) -> Vec<(String, f64)> {
        self.metrics.iter().map(|(name, value)| (spell(name, declared), *value)).collect()
    }

    /// Appends the blob.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        to.push(VERSION);
        put_values(to, &self.values);
        put_origin(to, &self.origin);
        to.put_uint(self.attempt.into());
        to.put_uint(self.lost.into());
        to.put_int(self.created_ms);
        let present = [
            self.started_ms.is_some(),
            self.ended_ms.is_some(),
            self.worker.is_some(),
            self.holder.is_some(),
            self.sem.is_some(),
            self.cost.is_some(),
            self.features.is_some(),
            self.failure.is_some(),
            self.error.is_some(),
            self.peak_rss_bytes.is_some(),
        ];
        to.put_uint(present.iter().enumerate().map(|(i, &bit)| u64::from(bit) << i).sum());
        for time in [self.started_ms, self.ended_ms].into_iter().flatten() {
            to.put_int(time.wrapping_sub(self.created_ms));
        }
        if let Some(worker) = &self.worker {
            to.put_bytes(worker.as_bytes());
        }
        if let Some(holder) = &self.holder {
            put_holder(to, holder);
        }
        for value in [self.sem, self.cost].into_iter().flatten() {
            to.put_f64(value);
        }
        if let Some(features) = &self.features {
            to.put_uint(features.len() as u64);
            for &value in features {
                to.put_f64(value);
            }
        }
        if let Some(failure) = self.failure {
            to.put_bytes(failure.to_string().as_bytes());
        }
        if let Some(error) = &self.error {
            to.put_bytes(&error.as_bytes()[..error.floor_char_boundary(MAX_ERROR_BYTES)]);
        }
        if let Some(bytes) = self.peak_rss_bytes {
            to.put_uint(bytes);
        }
        put_metrics(to, &self.metrics);
    }

    /// Reads a blob; the error says what is wrong with it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut from = Take::new(bytes);
        if from.byte()? != VERSION {
            return Err("its format is not known to this version");
        }
        let values = take_values(&mut from)?;
        let origin = take_origin(&mut from)?;
        let mut record = Record::new(&[], origin, 0);
        record.values = values;
        record.attempt = from.u32()?;
        record.lost = from.u32()?;
        record.created_ms = from.int()?;
        let flags = from.uint()?;
        let present = |bit: u32| flags >> bit & 1 == 1;
        if present(0) {
            record.started_ms = Some(record.created_ms.wrapping_add(from.int()?));
        }
        if present(1) {
            record.ended_ms = Some(record.created_ms.wrapping_add(from.int()?));
        }
        if present(2) {
            record.worker = Some(from.text()?);
        }
        if present(3) {
            record.holder = Some(take_holder(&mut from)?);
        }
        if present(4) {
            record.sem = Some(from.f64()?);
        }
        if present(5) {
            record.cost = Some(from.f64()?);
        }
        if present(6) {
            let n = from.len()?;
            record.features = Some((0..n).map(|_| from.f64()).collect::<Result<_, _>>()?);
        }
        if present(7) {
            record.failure = Some(failure_class(&from.text()?)?);
        }
        if present(8) {
            record.error = Some(from.text()?);
        }
        if present(9) {
            record.peak_rss_bytes = Some(from.uint()?);
        }
        record.metrics = take_metrics(&mut from)?;
        if !from.is_empty() || flags >> 10 != 0 {
            return Err("bytes are left over");
        }
        Ok(record)
    }
}

/// The name of a metric in words; one that the study does not declare any more keeps its index.
pub(crate) fn spell(name: &Name, declared: &[Metric]) -> String {
    match name {
        Name::Other(name) => name.clone(),
        Name::Declared(index) => {
            declared.get(*index).map_or_else(|| format!("metric {index}"), |m| m.name.clone())
        }
    }
}

/// Where a point came from, in words.
pub(crate) fn origin_text(origin: &Origin) -> String {
    match origin {
        Origin::Method { .. } => "method".into(),
        Origin::Fresh => "fresh".into(),
        Origin::Enqueued => "enqueued".into(),
        Origin::Replicate { of } => format!("replicate of {of}"),
        Origin::Imported => "imported".into(),
    }
}

/// The class that prints as `text`.
fn failure_class(text: &str) -> Result<FailureClass, &'static str> {
    serde_json::from_value(text.into()).map_err(|_| "its class of failure is not known to this version")
}

fn put_values(to: &mut Vec<u8>, values: &[Value]) {
    to.put_uint(values.len() as u64);
    for value in values {
        match value {
            Value::Float(x) => {
                to.push(0);
                to.put_f64(*x);
            }
            Value::Int(k) => {
                to.push(1);
                to.put_int(*k);
            }
            Value::Bool(b) => to.push(2 + u8::from(*b)),
            Value::Choice(index) => {
                to.push(4);
                to.put_uint((*index).into());
            }
            Value::Permutation(order) => {
                to.push(5);
                to.put_uint(order.len() as u64);
                for &k in order {
                    to.put_uint(k.into());
                }
            }
        }
    }
}

fn take_values(from: &mut Take<'_>) -> Result<Vec<Value>, &'static str> {
    let n = from.len()?;
    let mut values = Vec::with_capacity(n);
    for _ in 0..n {
        values.push(match from.byte()? {
            0 => Value::Float(from.f64()?),
            1 => Value::Int(from.int()?),
            2 => Value::Bool(false),
            3 => Value::Bool(true),
            4 => Value::Choice(from.u32()?),
            5 => {
                let n = from.len()?;
                Value::Permutation((0..n).map(|_| from.u32()).collect::<Result<_, _>>()?)
            }
            _ => return Err("a value is of an unknown type"),
        });
    }
    Ok(values)
}

fn put_origin(to: &mut Vec<u8>, origin: &Origin) {
    match origin {
        Origin::Method { detail } => {
            to.push(0);
            to.put_bytes(detail);
        }
        Origin::Fresh => to.push(1),
        Origin::Enqueued => to.push(2),
        Origin::Replicate { of } => {
            to.push(3);
            to.put_uint(*of);
        }
        Origin::Imported => to.push(4),
    }
}

fn take_origin(from: &mut Take<'_>) -> Result<Origin, &'static str> {
    Ok(match from.byte()? {
        0 => Origin::Method { detail: from.bytes()?.into() },
        1 => Origin::Fresh,
        2 => Origin::Enqueued,
        3 => Origin::Replicate { of: from.uint()? },
        4 => Origin::Imported,
        _ => return Err("its origin is unknown"),
    })
}

fn put_holder(to: &mut Vec<u8>, holder: &Holder) {
    to.put_uint(holder.client);
    to.put_uint(holder.process.host);
    to.put_uint(holder.process.pid.into());
    to.put_uint(holder.process.start);
    to.put_uint(match holder.term {
        Term::Process => 0,
        Term::Forever => 1,
        Term::Millis(millis) => millis.saturating_add(2),
    });
}

fn take_holder(from: &mut Take<'_>) -> Result<Holder, &'static str> {
    let client = from.uint()?;
    let process = Process { host: from.uint()?, pid: from.u32()?, start: from.uint()? };
    let term = match from.uint()? {
        0 => Term::Process,
        1 => Term::Forever,
        millis => Term::Millis(millis - 2),
    };
    Ok(Holder { client, process, term })
}

/// Appends named values.
pub(crate) fn put_metrics(to: &mut Vec<u8>, metrics: &[(Name, f64)]) {
    to.put_uint(metrics.len() as u64);
    for (name, value) in metrics {
        match name {
            Name::Declared(index) => to.put_uint(*index as u64 + 1),
            Name::Other(name) => {
                to.put_uint(0);
                to.put_bytes(name.as_bytes());
            }
        }
        to.put_f64(*value);
    }
}

/// Takes named values.
pub(crate) fn take_metrics(from: &mut Take<'_>) -> Result<Vec<(Name, f64)>, &'static str> {
    let n = from.len()?;
    let mut metrics = Vec::with_capacity(n);
    for _ in 0..n {
        let name = match from.u32()? {
            0 => Name::Other(from.text()?),
            index => Name::Declared(index as usize - 1),
        };
        metrics.push((name, from.f64()?));
    }
    Ok(metrics)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<f64>().prop_map(Value::Float),
            any::<i64>().prop_map(Value::Int),
            any::<bool>().prop_map(Value::Bool),
            any::<u32>().prop_map(Value::Choice),
            vec(any::<u32>(), 0..9).prop_map(|order| Value::Permutation(order.into())),
        ]
    }

    fn origin() -> impl Strategy<Value = Origin> {
        prop_oneof![
            vec(any::<u8>(), 0..20).prop_map(|detail| Origin::Method { detail: detail.into() }),
            Just(Origin::Fresh),
            Just(Origin::Enqueued),
            any::<u64>().prop_map(|of| Origin::Replicate { of }),
            Just(Origin::Imported),
        ]
    }

    fn holder() -> impl Strategy<Value = Holder> {
        let term =
            prop_oneof![Just(Term::Process), Just(Term::Forever), (0..u64::MAX - 2).prop_map(Term::Millis)];
        (any::<[u64; 3]>(), any::<u32>(), term).prop_map(|([client, host, start], pid, term)| Holder {
            client,
            process: Process { host, pid, start },
            term,
        })
    }

    fn name() -> impl Strategy<Value = Name> {
        prop_oneof![(0..9_usize).prop_map(Name::Declared), ".{0,8}".prop_map(Name::Other)]
    }

    fn record() -> impl Strategy<Value = Record> {
        let fixed = (vec(value(), 0..30), origin(), any::<(u32, u32, i64)>());
        let who =
            (option::of(any::<i64>()), option::of(any::<i64>()), option::of(".{0,20}"), option::of(holder()));
        let found = (
            vec((name(), any::<f64>()), 0..5),
            option::of(any::<f64>()),
            option::of(any::<f64>()),
            option::of(vec(any::<f64>(), 0..5)),
            option::of(prop_oneof![Just(FailureClass::Diverged), Just(FailureClass::OutOfMemory)]),
            option::of(".{0,40}"),
            option::of(any::<u64>()),
        );
        (fixed, who, found).prop_map(|(fixed, who, found)| Record {
            values: fixed.0,
            origin: fixed.1,
            attempt: fixed.2.0,
            lost: fixed.2.1,
            created_ms: fixed.2.2,
            started_ms: who.0,
            ended_ms: who.1,
            worker: who.2,
            holder: who.3,
            metrics: found.0,
            sem: found.1,
            cost: found.2,
            features: found.3,
            failure: found.4,
            error: found.5,
            peak_rss_bytes: found.6,
        })
    }

    proptest! {
        #[test]
        fn decode_inverts_encode(record in record()) {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            let back = Record::decode(&bytes).expect("a blob of ours");
            // Compared as bytes, since NaN differs from itself.
            let mut again = Vec::new();
            back.encode(&mut again);
            prop_assert_eq!(bytes, again);
        }

        #[test]
        fn a_cut_or_changed_blob_is_an_error_or_another_record_but_no_panic(record in record(), cut: prop::sample::Index, byte: u8) {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            let at = cut.index(bytes.len());
            prop_assert!(Record::decode(&bytes[..at]).is_err());
            bytes[at] ^= byte;
            let _ = Record::decode(&bytes);
        }
    }

    #[test]
    fn twenty_floats_take_less_than_240_bytes() {
        let mut record = Record::new(&vec![Value::Float(0.1); 20], Origin::Fresh, 1_700_000_000_000);
        record.started_ms = Some(1_700_000_000_500);
        record.ended_ms = Some(1_700_000_900_000);
        record.worker = Some("machine-12345-1".into());
        record.metrics = vec![(Name::Declared(0), 0.5)];
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        assert!(bytes.len() < 240, "{}", bytes.len());
    }

    #[test]
    fn every_failure_class_is_read_back_from_its_name() {
        for class in [
            FailureClass::Diverged,
            FailureClass::Crashed,
            FailureClass::OutOfMemory,
            FailureClass::MetricMissing,
            FailureClass::Timeout,
        ] {
            assert_eq!(failure_class(&class.to_string()), Ok(class));
        }
    }
}
