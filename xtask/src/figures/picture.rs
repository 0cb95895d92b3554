//! Draws the records of a figure as SVG: the share of runs that reached their goal, over queries.

use std::fmt::Write as _;

use super::record::Record;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 200.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 46.0;
/// Blue, orange, green and grey, told apart by colour-blind readers too.
const COLOURS: &[&str] = &["#0072b2", "#e69f00", "#009e73", "#999999"];

/// One curve: a name and the queries of each run.
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) dashed: bool,
    pub(super) queries: Vec<f64>,
}

/// Curves of a method and problem each, in the order of `methods`, dashed from the second method on.
pub(super) fn curves(records: &[Record], methods: &[&str], problems: &[&str]) -> Vec<Curve> {
    let mut curves = Vec::new();
    for (i, method) in methods.iter().enumerate() {
        for problem in problems {
            let of = records.iter().filter(|r| r.method == *method && r.problem == *problem);
            let queries = of.map(|r| r.value).collect();
            curves.push(Curve { name: format!("{method}, {problem}"), dashed: i > 0, queries });
        }
    }
    curves
}

/// The picture: queries on a logarithmic axis up to `budget`, the share of runs on the other.
pub(super) fn share_found(curves: &[Curve], colours: usize, budget: f64) -> String {
    let x = |queries: f64| LEFT + (WIDTH - LEFT - RIGHT) * (queries.max(1.0).ln() / budget.ln());
    let y = |share: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - share);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n"
    );
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let (at, from, to) = (y(share), x(1.0), x(budget));
        let _ = writeln!(
            svg,
            "<line x1=\"{from:.1}\" y1=\"{at:.1}\" x2=\"{to:.1}\" y2=\"{at:.1}\" stroke=\"#dddddd\"/>"
        );
        let percent = share * 100.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{percent:.0} %</text>",
            from - 6.0,
            at + 4.0
        );
    }
    for queries in [1.0, 10.0, 100.0, 1000.0].into_iter().filter(|q| *q <= budget) {
        let at = x(queries);
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" y1=\"{:.1}\" x2=\"{at:.1}\" y2=\"{:.1}\" stroke=\"#dddddd\"/>",
            y(1.0),
            y(0.0)
        );
        let _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{queries}</text>",
            y(0.0) + 16.0
        );
    }
    let middle = f64::midpoint(x(1.0), x(budget));
    let _ = writeln!(
        svg,
        "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">trained networks looked at</text>",
        HEIGHT - 10.0
    );
    let _ = writeln!(
        svg,
        "<text x=\"14\" y=\"{0:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 14 {0:.1})\">searches that found the best one</text>",
        f64::midpoint(y(0.0), y(1.0))
    );
    for (i, curve) in curves.iter().enumerate() {
        let colour = COLOURS[i % colours % COLOURS.len()];
        let dash = if curve.dashed { " stroke-dasharray=\"4 3\"" } else { "" };
        let mut queries = curve.queries.clone();
        queries.sort_by(f64::total_cmp);
        let mut path = format!("M{:.1} {:.1}", x(1.0), y(0.0));
        let n = queries.len() as f64;
        for (k, found) in queries.iter().enumerate().filter(|(_, found)| **found < budget) {
            let _ = write!(path, " H{:.1} V{:.1}", x(*found), y((k + 1) as f64 / n));
        }
        let _ = write!(path, " H{:.1}", x(budget));
        let _ =
            writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>");
        let (from, at) = (x(budget) + 8.0, TOP + 8.0 + 16.0 * i as f64);
        let _ = writeln!(
            svg,
            "<line x1=\"{from:.1}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>",
            from + 18.0
        );
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"9\">{}</text>",
            from + 22.0,
            at + 3.0,
            curve.name
        );
    }
    svg + "</svg>\n"
}
