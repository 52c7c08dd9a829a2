//! Prints findings for users and for programs.

use anyhow::Result;
use serde_json::json;

use super::finding::{Finding, Severity};
use tributary_cli::output;

/// The width of a table that is not printed on a terminal, in characters.
const WIDTH: u16 = 140;

/// Prints the findings.
///
/// # Errors
/// Standard output cannot be written to.
pub(super) fn print(findings: &[Finding], json: bool) -> Result<()> {
    match json {
        true => output::print(json!({ "healthy": findings.is_empty(), "findings": findings })),
        false => output::print(text(findings)),
    }
}

fn text(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "nothing is wrong".to_owned();
    }
    let problems = findings.iter().filter(|finding| finding.severity == Severity::Problem).count();
    let (problems, warnings) = (count(problems, "problem"), count(findings.len() - problems, "warning"));
    format!("{}\n{problems}, {warnings}; docs/doctor.md explains each finding", table(findings))
}

/// Returns a number with its noun, in the singular or the plural.
fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Returns the table of findings: place, problem and instructions.
pub(super) fn table(findings: &[Finding]) -> comfy_table::Table {
    let mut table = output::table(&["", "where", "what is wrong", "what to do"]);
    if table.width().is_none() {
        table.set_width(WIDTH);
    }
    for Finding { code, severity, place, what, fix } in findings {
        table.add_row([format!("{severity}\n{}", code.name()), place.clone(), what.clone(), fix.clone()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::finding::Code;
    use super::*;

    fn findings() -> Vec<Finding> {
        vec![
            Finding::problem(
                Code::SwitchUnreachable,
                "switch leaf",
                "has been unreachable for 9 s",
                "start it",
            ),
            Finding::warning(Code::ClockDiffers, "host w0", "its clock is 9 s ahead", "use NTP"),
            Finding::warning(Code::ClockDiffers, "host w1", "its clock is 8 s ahead", "use NTP"),
        ]
    }

    #[test]
    fn a_finding_says_where_what_and_what_to_do() {
        let text = text(&findings());
        for words in [
            "switch-away",
            "switch leaf",
            "has been unreachable for 9 s",
            "start it",
            "1 problem, 2 warnings",
        ] {
            assert!(text.contains(words), "{words:?} is not in\n{text}");
        }
        assert_eq!(super::text(&[]), "nothing is wrong");
    }

    #[test]
    fn every_kind_has_a_section_in_the_docs_and_no_other_has() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor.md");
        let page = fs::read_to_string(page).unwrap();
        let headings: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
        let codes = Code::ALL.map(|code| serde_json::to_value(code).unwrap().as_str().unwrap().to_owned());
        assert_eq!(headings, codes);
    }
}
