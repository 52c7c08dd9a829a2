//! Converts a report's JSON to rows of figures.

use std::collections::BTreeMap;

use serde_json::Value;

/// The figures of one object of a report, by path, with dots between names.
///
/// The figures of the list elements that contain the object are included.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ReportRow(BTreeMap<String, Value>);

impl ReportRow {
    /// Returns a figure; NaN if it is absent.
    pub(super) fn number(&self, path: &str) -> f64 {
        self.0.get(path).and_then(Value::as_f64).unwrap_or(f64::NAN)
    }

    /// Returns a figure or a word as text, unchanged; an empty text if it is absent.
    pub(super) fn text(&self, path: &str) -> String {
        self.0.get(path).map(said).unwrap_or_default()
    }

    /// Returns true if the flag at this path is set, and `false` if the flag is absent.
    pub(super) fn is(&self, path: &str) -> bool {
        self.0.get(path).and_then(Value::as_bool).unwrap_or(false)
    }

    /// Returns all figures, in the order of [`header`].
    pub(super) fn cells(&self) -> Vec<String> {
        self.0.keys().map(|path| self.text(path)).collect()
    }
}

/// Returns the rows at a path, which is names with dots between, and `*` for each element of a list.
///
/// A row also has the fields of the list elements on the path above it. The report's own fields are only in
/// the row at the empty path, which is the only row at that path.
pub(super) fn of(report: &Value, path: &str) -> Vec<ReportRow> {
    let mut whole = ReportRow::default();
    if path.is_empty() {
        flatten("", report, &mut whole.0);
    }
    let mut found = vec![(whole, report)];
    for name in path.split_terminator('.') {
        found = match name {
            "*" => found.into_iter().flat_map(|(above, list)| elements(&above, list)).collect(),
            name => {
                found.into_iter().filter_map(|(above, object)| Some((above, object.get(name)?))).collect()
            }
        };
    }
    let mut rows: Vec<ReportRow> = found.into_iter().map(|(row, _)| row).collect();
    // Each row has every column, in the same order.
    let mut all = BTreeMap::new();
    for row in &rows {
        all.extend(row.0.keys().map(|path| (path.clone(), Value::Null)));
    }
    for row in &mut rows {
        let mut whole = all.clone();
        whole.extend(std::mem::take(&mut row.0));
        row.0 = whole;
    }
    rows
}

/// Returns the names of the columns.
pub(super) fn header(rows: &[ReportRow]) -> Vec<&str> {
    rows.first().map(|row| row.0.keys().map(String::as_str).collect()).unwrap_or_default()
}

fn elements<'a>(above: &ReportRow, list: &'a Value) -> Vec<(ReportRow, &'a Value)> {
    let elements = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let row = |element: &'a Value| {
        let mut row = above.clone();
        flatten("", element, &mut row.0);
        (row, element)
    };
    elements.iter().map(row).collect()
}

fn said(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Adds the figures of a value by path.
///
/// Lists of objects are separate rows. A list of figures is one text.
fn flatten(prefix: &str, value: &Value, into: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(object) => object.iter().for_each(|(name, value)| {
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            flatten(&path, value, into);
        }),
        Value::Array(list) if list.iter().any(|one| one.is_object() || one.is_array()) => {}
        Value::Array(list) => {
            let figures: Vec<String> = list.iter().map(said).collect();
            into.insert(prefix.to_owned(), Value::String(figures.join(" ")));
        }
        figure => {
            into.insert(prefix.to_owned(), figure.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_have_what_the_objects_around_them_say_and_all_columns() {
        let report = json!({"machine": 1, "cases": [
            {"window": 16, "of": [{"who": "a", "time": {"median": 0.5, "all": [1, 2]}}, {"who": "b", "lost": true}]},
            {"window": 64, "of": [{"who": "a", "time": {"median": 2}}]},
        ]});
        let rows = of(&report, "cases.*.of.*");
        assert_eq!(header(&rows), ["lost", "time.all", "time.median", "who", "window"]);
        let cells: Vec<_> = rows.iter().map(ReportRow::cells).collect();
        let expected = [["", "1 2", "0.5", "a", "16"], ["true", "", "", "b", "16"], ["", "", "2", "a", "64"]];
        assert_eq!(cells, expected);
        assert!(rows[1].is("lost") && rows[1].number("time.median").is_nan());
        assert_eq!(of(&report, "nothing.*"), []);
        assert_eq!(of(&report, "")[0].text("machine"), "1");
    }
}
