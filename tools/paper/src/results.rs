//! `docs/results/`: a folder for each part, with its tables, its pictures and a page that shows them.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tributary_bench::comparison::Machine;
use tributary_picture::Chart;

/// The folder of one part.
///
/// It is written next to the previous results. [`finish`](Self::finish) replaces the previous folder by it.
pub(crate) struct Results {
    /// The final folder.
    place: PathBuf,
    /// The folder of the unfinished results.
    folder: PathBuf,
    page: String,
}

/// The cells of a table for people.
pub(crate) type Cells = Vec<String>;

impl Results {
    /// Makes an empty folder, and a page with this title.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub(crate) fn start(out: &Path, part: &str, title: &str, said: &str) -> Result<Self> {
        let (place, folder) = (out.join(part), out.join(format!(".{part}.unfinished")));
        let cannot = || format!("cannot make the folder {}", folder.display());
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(cannot)?;
        }
        fs::create_dir_all(&folder).with_context(cannot)?;
        let page = format!("# {title}\n\n{said}\n\n{}", made_by(part)?);
        Ok(Self { place, folder, page })
    }

    /// Writes a heading and its text to the page.
    pub(crate) fn section(&mut self, heading: &str, said: &str) {
        let _ = write!(self.page, "\n## {heading}\n");
        if !said.is_empty() {
            let _ = write!(self.page, "\n{said}\n");
        }
    }

    /// Writes rows for programs, as CSV.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn csv<Row: Serialize>(&mut self, name: &str, rows: &[Row]) -> Result<()> {
        self.write_csv(name, |writer| rows.iter().try_for_each(|row| writer.serialize(row)))
    }

    /// Writes rows of text for programs, as CSV.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn records(
        &mut self,
        name: &str,
        header: &[&str],
        mut rows: impl Iterator<Item = Cells>,
    ) -> Result<()> {
        self.write_csv(name, |writer| {
            writer.write_record(header)?;
            rows.try_for_each(|row| writer.write_record(row))
        })
    }

    fn write_csv(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut csv::Writer<fs::File>) -> csv::Result<()>,
    ) -> Result<()> {
        let file = self.folder.join(name).with_extension("csv");
        let cannot = || format!("cannot write {}", file.display());
        let mut writer = csv::Writer::from_path(&file).with_context(cannot)?;
        write(&mut writer).with_context(cannot)?;
        writer.flush().with_context(cannot)?;
        let _ = write!(self.page, "\nAll figures: [`{name}.csv`]({name}.csv).\n");
        Ok(())
    }

    /// Adds a table to the page.
    pub(crate) fn table(&mut self, header: &[&str], rows: &[Cells]) {
        let _ = write!(self.page, "\n| {} |\n|{}\n", header.join(" | "), "---|".repeat(header.len()));
        for row in rows {
            let _ = writeln!(self.page, "| {} |", row.join(" | "));
        }
    }

    /// Adds a picture to the page.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn chart(&mut self, name: &str, chart: &Chart) -> Result<()> {
        self.svg(name, &chart.title, format!("{}\n", chart.draw()))
    }

    /// Adds a picture from an SVG file of another program.
    ///
    /// # Errors
    /// The picture is missing, or the file cannot be written.
    pub(crate) fn picture(&mut self, drawn: &Path, name: &str, title: &str) -> Result<()> {
        let svg = fs::read_to_string(drawn).with_context(|| format!("cannot read {}", drawn.display()))?;
        self.svg(name, title, svg)
    }

    fn svg(&mut self, name: &str, title: &str, svg: String) -> Result<()> {
        let file = self.folder.join(name).with_extension("svg");
        fs::write(&file, svg).with_context(|| format!("cannot write {}", file.display()))?;
        let _ = write!(self.page, "\n![{title}]({name}.svg)\n");
        Ok(())
    }

    /// Writes the page, and replaces the previous folder by the new folder.
    ///
    /// # Errors
    /// The file cannot be written, or the previous folder cannot be replaced.
    pub(crate) fn finish(self) -> Result<()> {
        let file = self.folder.join("README.md");
        fs::write(&file, self.page).with_context(|| format!("cannot write {}", file.display()))?;
        let cannot = || format!("cannot replace the folder {}", self.place.display());
        if self.place.exists() {
            fs::remove_dir_all(&self.place).with_context(cannot)?;
        }
        fs::rename(&self.folder, &self.place).with_context(cannot)
    }
}

/// Returns a sentence with the command, the date, the commit and the machine of the results.
fn made_by(part: &str) -> Result<String> {
    let date = OffsetDateTime::now_utc().replace_nanosecond(0)?.format(&Rfc3339)?;
    let Machine { processor, cores, kernel, .. } = Machine::this();
    Ok(format!(
        "`make paper ARGS={part}` made this page at {date} of commit {}, on {cores} cores of {processor} under Linux {kernel}.\n",
        commit()
    ))
}

/// Returns the present commit, with a note if tracked files outside `docs` differ from it.
///
/// Returns "unknown" if git fails.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    match git(&["status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs"]).as_deref() {
        Some("") => commit,
        _ => format!("{commit} and changes"),
    }
}
