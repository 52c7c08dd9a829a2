//! Measurements of large clusters: planned, and simulated.

use super::*;

/// The time that planning takes for clusters of growing size.
pub(crate) const PLAN: Measurement = Measurement {
    title: "Planning as a cluster grows",
    said: "A job is planned on fat trees of four sizes, from the topology's text to the tables that `tributary plan` \
           prints, and planned again after a switch of the tree has died. Times are the processor time of one thread, \
           the fastest of five rounds.",
    runs: &[MeasuredCommand {
        heading: "Time by size",
        line: "tributary-bench plan --rounds 5 --json",
        tables: &[
            Table {
                csv: Some("sizes"),
                rows: "sizes.*",
                shown: Shown::Columns(&[
                    ("switches", |row| row.text("switches")),
                    ("hosts", |row| row.text("hosts")),
                    ("workers", |row| row.text("workers")),
                    ("read, ms", |row| milliseconds(row.number("read"))),
                    ("plan, ms", |row| milliseconds(row.number("plan"))),
                    ("print, ms", |row| milliseconds(row.number("print"))),
                    ("total, ms", |row| milliseconds(row.number("whole"))),
                    ("growth", |row| growth(row.number("growth"))),
                    ("plan again, ms", |row| milliseconds(row.number("replan"))),
                    ("growth", |row| growth(row.number("replan_growth"))),
                ]),
            },
            Table {
                csv: None,
                rows: "limits.*",
                shown: Shown::Columns(&[
                    ("requirement", |row| row.text("what")),
                    ("measured", |row| format!("{:.3}", row.number("measured"))),
                    ("at most", |row| row.text("most")),
                    ("", |row| verdict(row, "passed")),
                ]),
            },
        ],
        ..RUN
    }],
};

fn growth(factor: f64) -> String {
    if factor.is_nan() { String::new() } else { format!("{factor:.1} ×") }
}

/// The fabric in clusters that are too large for one machine, simulated.
pub(crate) const SCALE: Measurement = Measurement {
    title: "The fabric in large clusters, simulated",
    said: "A fluid model of fat trees with the real planner's trees; `docs/scale.md` states its assumptions. The same \
           command always gives the same numbers. Times are in ms. *Fabric 256* and *fabric 1024* are the fabric with \
           these windows, *leaves* is aggregation by the workers' switches only, and *4 PS* is a parameter server on \
           four hosts.",
    runs: &[
        MeasuredCommand {
            heading: "All studies",
            line: "tributary-bench scale --plots FOLDER --json",
            pictures: &[
                ("scaling.svg", "scaling"),
                ("jobs.svg", "jobs"),
                ("slots.svg", "slots"),
                ("congestion.svg", "congestion"),
                ("failures.svg", "failures"),
            ],
            tables: &[methods("scale")],
            ..RUN
        },
        MeasuredCommand {
            heading: "Computing time of 20 ms",
            line: "tributary-bench scale --studies jobs --seeds 4 --compute 20 --json",
            tables: &[methods("compute-20")],
            ..RUN
        },
        MeasuredCommand {
            heading: "Computing time of 500 ms",
            line: "tributary-bench scale --studies jobs --seeds 4 --compute 500 --json",
            tables: &[methods("compute-500")],
            ..RUN
        },
        MeasuredCommand {
            heading: "Links between switches as fast as links of hosts",
            line: "tributary-bench scale --studies jobs --seeds 4 --oversubscription 1 --json",
            tables: &[methods("oversubscription-1")],
            ..RUN
        },
        MeasuredCommand {
            heading: "Hosts that handle a quarter of their link's rate",
            line: "tributary-bench scale --studies jobs --seeds 4 --host-rate 25gbit --json",
            tables: &[methods("host-rate-25")],
            ..RUN
        },
    ],
};

const fn methods(csv: &'static str) -> Table {
    Table {
        csv: Some(csv),
        rows: "studies.*.points.*.results.*",
        shown: Shown::Pivot {
            corner: "study",
            down: |row| format!("{}, {}", row.text("study"), row.text("place")),
            across: method,
            cell: |row| match row.number("seconds") {
                seconds if seconds.is_nan() => "–".to_owned(),
                seconds => milliseconds(seconds),
            },
        },
    }
}

fn method(row: &ReportRow) -> String {
    match row.text("method").as_str() {
        "fabric" => format!("fabric {}", row.text("window")),
        "leaf" => "leaves".to_owned(),
        "parameter-server" if row.text("servers") == "1" => "PS".to_owned(),
        "parameter-server" => format!("{} PS", row.text("servers")),
        "double-tree" => "tree".to_owned(),
        other => other.to_owned(),
    }
}
