//! The problem `table`: any CSV file of parameters and metrics.

use std::collections::{BTreeMap, HashMap};

use csv::StringRecord;

use super::{PATH, REPLICATE, Sheet, Table};
use crate::problems::setup::Request;
use crate::problems::{Entry, TestProblem, function};
use crate::{Domain, Error, Literal, Parameter, Point, Space, Value};

pub(crate) const ENTRY: Entry = Entry {
    name: "table",
    summary: "evaluations recorded in a CSV file; points that are not in it are infeasible",
    options: &[
        PATH,
        (
            "parameters",
            "those of the space, or all left of the first metric",
            "names of the parameter columns, separated by commas",
        ),
        (
            "time",
            "none",
            "the column of recorded seconds, which is the cost of a trial and, with `simulate`, how long it takes",
        ),
        REPLICATE,
        function::NOISE,
        function::SEED,
    ],
    metrics: &[],
    build,
};

/// Reads the table.
///
/// A metric `m` is the column `m`, or its runs are the columns `m_s1`, `m_s2`, … (a run may be
/// missing: an empty cell).
/// Without a given space each parameter takes the options found in its column: ordered if all are
/// numbers, else without order; `true` and `false` make a bool.
fn build(request: &Request<'_>) -> Result<TestProblem, Error> {
    let metrics = request.setup.metrics.to_vec();
    if metrics.is_empty() {
        let message = "a table needs at least one metric: name the column to optimise as the objective";
        return Err(Error::Metrics { message: message.into() });
    }
    let mut sheet = Sheet::open(request)?;
    let mut cells: Vec<Vec<usize>> =
        metrics.iter().map(|metric| sheet.runs_of(&metric.name)).collect::<Result<_, _>>()?;
    let first_metric = *cells.iter().flatten().min().expect("every metric has a column");
    let parameters: Vec<usize> = match (request.text("parameters")?, request.setup.space) {
        (Some(names), _) => {
            names.split(',').map(|name| sheet.column(name.trim())).collect::<Result<_, _>>()?
        }
        (None, Some(space)) => space
            .parameters()
            .iter()
            .map(|parameter| sheet.column(&parameter.name))
            .collect::<Result<_, _>>()?,
        (None, None) => (0..first_metric).collect(),
    };
    if parameters.is_empty() {
        let message = "no column stands left of the first metric; give the names of the parameter columns";
        return Err(request.bad("parameters", message));
    }
    let time = request.text("time")?;
    if let Some(time) = time {
        cells.push(vec![sheet.column(time)?]);
    }
    let mut texts: Vec<Texts> = parameters.iter().map(|_| Texts::default()).collect();
    let rows = sheet.rows(&cells, |record: &StringRecord, line| {
        texts.iter_mut().zip(&parameters).for_each(|(texts, &cell)| texts.push(&record[cell], line));
        Ok(())
    })?;

    let name = |column: usize| sheet.header()[parameters[column]].as_str();
    let at = |row: usize, error: &Error| sheet.error(rows.lines[row], error.to_string());
    let same = |row: usize, earlier: usize| {
        let others =
            format!("the parameters {} are those of line {}", join(&sheet, &parameters), rows.lines[earlier]);
        sheet.error(rows.lines[row], others)
    };
    let n_rows = 0..rows.lines.len();
    let table = if let Some(space) = request.setup.space {
        let literals: Vec<Vec<Option<Literal>>> =
            texts.iter().enumerate().map(|(i, texts)| texts.literals(space, name(i))).collect();
        let points = n_rows
            .map(|row| given_point(space, row, &texts, &literals, name).map_err(|error| at(row, &error)));
        Table::new(space.clone(), rows.columns, points, same)?
    } else {
        let (found, values): (Vec<Parameter>, Vec<Vec<Value>>) = texts
            .iter()
            .enumerate()
            .map(|(i, texts)| {
                texts.infer(name(i)).map_err(|line| sheet.error(line, format!("{} is empty", name(i))))
            })
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .unzip();
        let space = Space::new(found, &[])?;
        let points = n_rows.map(|row| {
            let row_values =
                texts.iter().zip(&values).map(|(texts, values)| values[texts.rows[row] as usize].clone());
            space.point(row_values.collect()).map(Some).map_err(|error| at(row, &error))
        });
        Table::new(space.clone(), rows.columns, points, same)?
    };
    let columns: Vec<usize> = (0..metrics.len()).collect();
    let seconds = time.map(|_| metrics.len());
    table.problem(request, metrics, &columns, seconds, Vec::new())
}

fn join(sheet: &Sheet<'_>, columns: &[usize]) -> String {
    let names: Vec<&str> = columns.iter().map(|&column| sheet.header()[column].as_str()).collect();
    names.join(", ")
}

/// The point of a row in a given space; `None` if it breaks a known constraint and so is never asked for.
fn given_point<'a>(
    space: &Space,
    row: usize,
    texts: &[Texts],
    literals: &[Vec<Option<Literal>>],
    name: impl Fn(usize) -> &'a str,
) -> Result<Option<Point>, Error> {
    let named: BTreeMap<String, Literal> = texts
        .iter()
        .zip(literals)
        .enumerate()
        .filter_map(|(i, (texts, literals))| {
            Some((name(i).to_owned(), literals[texts.rows[row] as usize].clone()?))
        })
        .collect();
    match space.point_from_literals(&named) {
        Ok(point) => Ok(Some(point)),
        Err(Error::Constraint { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The cells of a column, each distinct text kept once.
#[derive(Debug, Default)]
struct Texts {
    codes: HashMap<String, u32>,
    /// The distinct texts with the line of the first of each.
    distinct: Vec<(String, u64)>,
    /// The code of each row.
    rows: Vec<u32>,
}

impl Texts {
    fn push(&mut self, text: &str, line: u64) {
        let code = if let Some(&code) = self.codes.get(text) {
            code
        } else {
            let code =
                u32::try_from(self.distinct.len()).expect("a table in memory has fewer than 2^32 rows");
            self.codes.insert(text.to_owned(), code);
            self.distinct.push((text.to_owned(), line));
            code
        };
        self.rows.push(code);
    }

    fn all<T>(&self, read: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
        self.distinct.iter().map(|(text, _)| read(text)).collect()
    }

    /// The parameter that takes exactly these texts, and the value of each; the line of the first
    /// empty cell if there is one.
    fn infer(&self, name: &str) -> Result<(Parameter, Vec<Value>), u64> {
        if let Some((_, line)) = self.distinct.iter().find(|(text, _)| text.is_empty()) {
            return Err(*line);
        }
        if let Some(bools) = self.all(|text| text.to_ascii_lowercase().parse().ok()) {
            return Ok((Parameter::bool(name), bools.into_iter().map(Value::Bool).collect()));
        }
        if let Some(ints) = self.all(|text| text.parse::<i64>().ok()) {
            let (options, values) = ordered(&ints, i64::cmp);
            return Ok((Parameter::ordinal(name, options), values));
        }
        let finite = |text: &str| text.parse::<f64>().ok().filter(|x| x.is_finite()).map(|x| x + 0.0);
        if let Some(floats) = self.all(finite) {
            let (options, values) = ordered(&floats, f64::total_cmp);
            return Ok((Parameter::ordinal(name, options), values));
        }
        let options = self.distinct.iter().map(|(text, _)| text.as_str());
        let values = (0_u32..).take(self.distinct.len()).map(Value::Choice).collect();
        Ok((Parameter::choice(name, options), values))
    }

    /// What each text says of a parameter of a given space; an empty cell says nothing.
    fn literals(&self, space: &Space, name: &str) -> Vec<Option<Literal>> {
        let domain = space.index_of(name).map(|index| &space.parameters()[index].domain);
        let options: &[Literal] = match domain {
            Some(Domain::Ordinal { values } | Domain::Choice { values }) => values,
            _ => &[],
        };
        let literal = |text: &str| {
            let same = |option: &&Literal| {
                option.to_string() == text || option.as_f64().is_some_and(|x| text.parse() == Ok(x))
            };
            options.iter().find(same).cloned().unwrap_or_else(|| read_literal(text))
        };
        self.distinct.iter().map(|(text, _)| (!text.is_empty()).then(|| literal(text))).collect()
    }
}

/// The distinct items in order, and the option that each item is.
fn ordered<T: Copy>(items: &[T], compare: impl Fn(&T, &T) -> std::cmp::Ordering) -> (Vec<T>, Vec<Value>) {
    let mut options = items.to_vec();
    options.sort_by(&compare);
    options.dedup_by(|a, b| compare(a, b).is_eq());
    let option = |item: &T| {
        let index =
            options.binary_search_by(|option| compare(option, item)).expect("every item is an option");
        Value::Choice(u32::try_from(index).expect("a table in memory has fewer than 2^32 rows"))
    };
    let values = items.iter().map(option).collect();
    (options, values)
}

fn read_literal(text: &str) -> Literal {
    if let Ok(k) = text.parse() {
        return Literal::Int(k);
    }
    if let Ok(x) = text.parse() {
        return Literal::Float(x);
    }
    if let Ok(b) = text.to_ascii_lowercase().parse() {
        return Literal::Bool(b);
    }
    let list = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let list = list.and_then(|list| list.split(',').map(|item| item.trim().parse().ok()).collect());
    list.map_or_else(|| Literal::Text(text.to_owned()), Literal::List)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::problems::testing::{build, measured, options};
    use crate::problems::{Setup, problem};
    use crate::{Goal, Metric, Outcome};

    const SMALL: &str = "lr,opt,deep,width,loss_s1,loss_s2,time\n\
        0.1,sgd,true,16,1.0,3.0,10\n\
        1e-2,adam,false,8,0.5,,20\n\
        0.10, sgd ,False,8,4,4,30\n";

    fn loss() -> [Metric; 1] {
        [Metric::objective("loss", Goal::Min)]
    }

    #[test]
    fn types_are_inferred_and_rows_are_found() {
        let built = build("table", SMALL, &[("time", "time".into())], &loss()).unwrap();
        let space = built.problem().space();
        let domains: Vec<&Domain> = space.parameters().iter().map(|parameter| &parameter.domain).collect();
        assert_eq!(domains[0], &Domain::Ordinal { values: vec![0.01.into(), 0.1.into()] });
        assert_eq!(domains[1], &Domain::Choice { values: vec!["sgd".into(), "adam".into()] });
        assert_eq!(domains[2], &Domain::Bool);
        assert_eq!(domains[3], &Domain::Ordinal { values: vec![8.into(), 16.into()] });
        let at = |lr: f64, opt: &str, deep: bool, width: i64| {
            let point =
                [("lr", lr.into()), ("opt", opt.into()), ("deep", deep.into()), ("width", width.into())];
            built.evaluate(&space.point_from_literals(&options(&point)).unwrap(), 0)
        };
        let first = measured(at(0.1, "sgd", true, 16));
        assert_eq!((first.metrics, first.cost, first.sem), (vec![2.0], Some(10.0), None));
        assert_eq!(measured(at(0.01, "adam", false, 8)).metrics, [0.5]);
        assert_eq!(measured(at(0.1, "sgd", false, 8)).metrics, [4.0]);
        assert_eq!(at(0.1, "adam", false, 8), Outcome::Infeasible);
        assert_eq!(built.optimum(), Some(0.5));
    }

    #[test]
    fn gzipped_tables_are_the_same() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(SMALL.as_bytes()).unwrap();
        let mut packed = packed.finish().unwrap();
        let built = build("table", &packed, &[], &loss()).unwrap();
        assert_eq!(built.optimum(), Some(0.5));
        packed.truncate(packed.len() - 12);
        let error = build("table", &packed, &[], &loss()).unwrap_err().to_string();
        assert!(error.contains("table t.csv, line 0: cannot be unpacked"), "{error}");
    }

    #[test]
    fn faults_are_named_with_their_line() {
        let check = |text: &str, expected: &str| {
            let error = build("table", text, &[], &loss()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("", "line 1: the file is empty");
        check("x,loss\n", "line 0: there is no row");
        check("x,loss\n1,2\n1,2,3\n", "line 3: 3 cells, but the header has 2");
        check("x,loss\n1,2\n\n2\n", "line 4: 1 cells, but the header has 2");
        check("x,loss\n1,two\n", "line 2: loss: expected a number, got two");
        check("x,loss\n1,\n", "line 2: loss: expected a number, got an empty cell");
        check("x,loss_s1,loss_s2\n1,1,1\n2,,\n", "line 3: no run in loss_s1");
        check("x,loss\n1,2\n2,2\n1.0,3\n", "line 4: the parameters x are those of line 2");
        check("x,y,loss\n1,a,2\n2,,2\n", "line 3: y is empty");
        check("x,x,loss\n1,1,2\n", "line 1: two columns are called x");
        check("x,,loss\n1,1,2\n", "line 1: column 2 has no name");
        check("x,cost\n1,2\n", "line 1: no column is called loss or loss_s1; there are x, cost");
        check("loss,x\n1,2\n", "option parameters of table: no column stands left");
        check("a b,loss\n1,2\n", "parameter a b: a name is");
        let error = build("table", b"x,loss\n\xff,2\n", &[], &loss()).unwrap_err().to_string();
        assert!(error.contains("line 2: the text is not UTF-8"), "{error}");
    }

    #[test]
    fn options_are_checked() {
        let check = |given: &[(&str, Literal)], metrics: &[Metric], expected: &str| {
            let error = build("table", SMALL, given, metrics).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&[], &[], "a table needs at least one metric");
        check(&[("time", "seconds".into())], &loss(), "no column is called seconds");
        check(&[("parameters", "lr,op".into())], &loss(), "no column is called op");
        check(&[("replicate", "median".into())], &loss(), "option replicate of table: expected \"mean\"");
        check(&[("replicate", Literal::Int(2))], &loss(), "1 of 3 points have no run 2");
        let setup = Setup { metrics: &loss(), ..Setup::default() };
        let error = problem("table").unwrap().build(&setup).unwrap_err().to_string();
        assert!(error.contains("option path of table: missing"), "{error}");
    }

    #[test]
    fn a_diverged_run_is_kept_as_nan() {
        let built = build("table", "x,loss\n1,nan\n2,inf\n3,1\n", &[], &loss()).unwrap();
        let values =
            (0..3).map(|row| measured(built.evaluate(&built.problem().space().nth(row), 0)).metrics[0]);
        let values: Vec<f64> = values.collect();
        assert!(values[0].is_nan());
        assert_eq!(values[1..], [f64::INFINITY, 1.0]);
        assert_eq!(built.optimum(), Some(1.0));
        let metrics = [Metric::objective("loss", Goal::Max)];
        assert_eq!(
            build("table", "x,loss\n1,nan\n2,inf\n3,1\n", &[], &metrics).unwrap().optimum(),
            Some(1.0)
        );
    }

    #[test]
    fn a_given_space_may_have_ranges_conditions_and_constraints() {
        let text = "note,opt,beta,depth,loss\n\
            a,sgd,,2,3\n\
            b,adam,0.9,3,2\n\
            c,adam,0.99,9,1\n";
        let space = |constraints: &[&str]| {
            let parameters = vec![
                Parameter::int("depth", 1, 10),
                Parameter::choice("opt", ["sgd", "adam"]),
                Parameter::float("beta", 0.0, 1.0).when("opt == 'adam'"),
            ];
            Space::new(parameters, constraints).unwrap()
        };
        let build = |text: &str, space: &Space| {
            let read = |_: &str| Ok(text.as_bytes().to_vec());
            let given = options(&[("path", "t.csv".into())]);
            let setup = Setup { options: &given, metrics: &loss(), space: Some(space), read: &read };
            problem("table").unwrap().build(&setup)
        };
        let built = build(text, &space(&[])).unwrap();
        let point = options(&[("depth", 3.into()), ("opt", "adam".into()), ("beta", 0.9.into())]);
        let point = built.problem().space().point_from_literals(&point).unwrap();
        assert_eq!(measured(built.evaluate(&point, 0)).metrics, [2.0]);
        assert_eq!(built.optimum(), Some(1.0));
        assert_eq!(build(text, &space(&["depth <= 5"])).unwrap().optimum(), Some(2.0));
        let error = build(&text.replace("sgd,,", "sgd,0.5,"), &space(&[])).unwrap_err().to_string();
        assert!(error.starts_with("table t.csv, line 2: beta = 0.5"), "{error}");
        let error = build(&text.replace("0.99,9", "0.99,11"), &space(&[])).unwrap_err().to_string();
        assert!(error.starts_with("table t.csv, line 4: depth = 11"), "{error}");
    }

    #[test]
    fn draws_take_all_metrics_from_the_same_run() {
        let text = "x,a_s1,a_s2,b_s1,b_s2\n1,1,2,10,20\n";
        let metrics = [Metric::objective("a", Goal::Min), Metric::constraint("b", Goal::Min, 100.0)];
        let built = build("table", text, &[("replicate", "draw".into())], &metrics).unwrap();
        let point = built.problem().space().nth(0);
        let draws: Vec<Vec<f64>> =
            (0..50).map(|number| measured(built.evaluate(&point, number)).metrics).collect();
        let runs = [vec![1.0, 10.0], vec![2.0, 20.0]];
        assert!(runs.iter().all(|run| draws.contains(run)));
        assert!(draws.iter().all(|draw| runs.contains(draw)));
    }
}
