//! C programs that use `libtributary` as ranks of a lab. They need root and a C compiler. If these are missing, the tests
//! print that they are skipped.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output};

use tributary_testkit::binary::{TRIBUTARY, stderr, tributary};
use tributary_testkit::root;
use tributary_testkit::test_lab::TestLab;

const FOUR_WORKERS: &str = "topologies/two-leaves-4.toml";

/// The folder of the library and of programs that are compiled with it.
struct Compiled(tempfile::TempDir);

impl Compiled {
    /// Prints a message and returns `None` if the compiler is not installed.
    fn with(compiler: &str, package: &str) -> Option<Self> {
        if Command::new(compiler).arg("--version").output().is_err() {
            eprintln!("SKIPPED: there is no `{compiler}` on the PATH: install {package}");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        for name in ["libtributary.so", "libtributary.so.0"] {
            symlink(library(), folder.path().join(name)).unwrap();
        }
        Some(Self(folder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Compiles a source of the repository, and returns the path of the program.
    fn compile(&self, compiler: &str, source: &str, name: &str, options: &[&str]) -> String {
        let (program, folder) = (self.path(name), self.0.path());
        let mut command = Command::new(compiler);
        command
            .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-Icrates/capi/include", source, "-o"])
            .arg(&program)
            .args(options)
            .current_dir(root());
        if options.iter().any(|option| *option == "-ltributary") {
            command.arg("-L").arg(folder).arg(format!("-Wl,-rpath,{}", folder.display()));
        }
        let compiled = command.output().unwrap();
        assert!(compiled.status.success(), "{source}: {}", stderr(&compiled));
        program.to_str().unwrap().to_owned()
    }
}

/// Returns the path of the library. Cargo builds it for the tests of its package, and puts it into this
/// folder or beside the program.
fn library() -> PathBuf {
    let beside = TRIBUTARY.path().with_file_name("libtributary.so");
    let deps = beside.with_file_name("deps").join("libtributary.so");
    let found = [deps, beside].into_iter().filter(|path| path.exists());
    let newest = found.max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
    newest.expect("there is no libtributary.so: run this test by `cargo test --workspace`")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), stderr(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Compiles the program that checks the whole library.
fn check_program(compiled: &Compiled) -> String {
    compiled.compile("cc", "tests/programs/c_library.c", "c_library", &["-ltributary", "-lpthread"])
}

#[test]
fn c_programs_get_what_the_header_says() {
    let Some(compiled) = Compiled::with("cc", "gcc") else { return };
    let program = check_program(&compiled);
    let mean = compiled.compile("cc", "examples/mean.c", "mean", &["-ltributary"]);
    let Some(lab) = TestLab::new("c") else { return };
    lab.up(FOUR_WORKERS, &["--no-rates"]);
    let commands: [(&[&str], _); 3] = [
        (&[&program], " of 4: right"),
        (&[&mean], "the mean is 1.5"),
        // The job ends with this program.
        (&[&program, "different"], " of 4: right"),
    ];
    for (command, right) in commands {
        let said = text(&lab.run(command));
        assert_eq!(said.matches(right).count(), 4, "{said}");
    }
    lab.down();
    lab.is_gone();
}

#[test]
fn c_programs_may_be_several_ranks_of_a_host() {
    let Some(compiled) = Compiled::with("cc", "gcc") else { return };
    let program = check_program(&compiled);
    let Some(lab) = TestLab::new("c-two") else { return };
    let run = ["lab", "run", FOUR_WORKERS, "--name", &lab.0, "--no-rates", "--ranks-per-host", "2", "--"];
    let said = text(&tributary(&[&run[..], &[program.as_str()]].concat()));
    assert_eq!(said.matches(" of 8: right").count(), 8, "{said}");
    lab.is_gone();
}

#[test]
fn a_sum_without_a_rank_does_not_pass_for_the_sum_in_c() {
    let Some(compiled) = Compiled::with("cc", "gcc") else { return };
    let program = check_program(&compiled);
    let Some(lab) = TestLab::new("c-alone") else { return };
    lab.up(FOUR_WORKERS, &["--no-rates"]);
    let said = text(&lab.run(&[&program, "alone"]));
    assert_eq!(said.matches(" of 4: right").count(), 3, "{said}");
    lab.down();
    lab.is_gone();
}
