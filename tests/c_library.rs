//! C programs that use `libtributary` as ranks of a lab, unmodified MPI programs, and NCCL's plugin.
//!
//! They need root, a C compiler and, for MPI, Open MPI. If these are missing, the tests print that they are skipped. A
//! program plays NCCL's part, because NCCL needs a GPU.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

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
        self.compile_all(compiler, &[source], name, options)
    }

    fn compile_all(&self, compiler: &str, sources: &[&str], name: &str, options: &[&str]) -> String {
        let (program, folder) = (self.path(name), self.0.path());
        let mut command = Command::new(compiler);
        command
            .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-Icrates/capi/include"])
            .args(sources)
            .arg("-o")
            .arg(&program)
            .args(options)
            .current_dir(root());
        if options.contains(&"-ltributary") {
            command.arg("-L").arg(folder).arg(format!("-Wl,-rpath,{}", folder.display()));
        }
        let compiled = command.output().unwrap();
        assert!(compiled.status.success(), "{sources:?}: {}", stderr(&compiled));
        program.to_str().unwrap().to_owned()
    }
}

/// Returns the path of the library.
///
/// Cargo builds it beside the program, or in `deps` for the tests of its package.
fn library() -> PathBuf {
    let beside = TRIBUTARY.path().with_file_name("libtributary_c.so");
    let deps = beside.with_file_name("deps").join("libtributary_c.so");
    let found = [deps, beside].into_iter().filter(|path| path.exists());
    let newest = found.max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
    newest.expect("there is no libtributary_c.so: run this test by `cargo test --workspace`")
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

/// Compiles the MPI library and the measuring program, which uses MPI only.
fn mpi() -> Option<(Compiled, String)> {
    let compiled = Compiled::with("mpicc", "libopenmpi-dev and openmpi-bin")?;
    let shared = ["-shared", "-fPIC", "-ltributary"];
    compiled.compile("mpicc", "crates/capi/mpi/tributary_mpi.c", "libtributary-mpi.so", &shared);
    let program = compiled.compile("mpicc", "examples/mpi_latency.c", "mpi_latency", &[]);
    Some((compiled, program))
}

/// Returns a command that runs an MPI program in a lab with `ranks` on each host, over the library.
fn mpirun(lab: &TestLab, library: &Path, ranks: &str, options: &[&str], program: &[&str]) -> Command {
    let preload = format!("LD_PRELOAD={}", library.display());
    let script = root().join("examples/mpirun-in-lab.sh");
    let command = ["lab", "run", "--name", &lab.0, "--", script.to_str().unwrap(), ranks, "-x", &preload];
    TRIBUTARY.command(&[&command[..], options, program].concat())
}

#[test]
fn an_unmodified_mpi_program_adds_in_the_fabric_and_gets_right_sums() {
    let Some((compiled, program)) = mpi() else { return };
    let library = compiled.path("libtributary-mpi.so");
    let Some(lab) = TestLab::new("mpi") else { return };
    lab.up(FOUR_WORKERS, &["--no-rates"]);
    for (ranks, kind) in [("1", "float"), ("1", "double"), ("2", "int"), ("2", "long")] {
        let options = ["-x", "TRIBUTARY_MPI_THRESHOLD=1024"];
        let program = [program.as_str(), kind, "256", "4096"];
        let output = mpirun(&lab, &library, ranks, &options, &program).output().unwrap();
        // Sizes of 256, 1,024 and 4,096 bytes, each 22 times. The program checks its sums.
        let said = text(&output);
        assert!(said.contains("w0: 4096 "), "{said}");
        let report = stderr(&output);
        assert!(report.contains("44 MPI_Allreduce went over the fabric"), "{report}");
        assert!(report.contains("22 MPI_Allreduce stayed with the MPI library"), "{report}");
        assert!(report.contains("smaller than the threshold of 1024 bytes"), "{report}");
        assert!(report.contains("66 MPI_Allreduce") && report.contains("other than MPI_SUM"), "{report}");
    }
    lab.down();
    lab.is_gone();
}

#[test]
fn an_mpi_program_without_a_job_falls_back_and_says_so_once() {
    let Some((compiled, program)) = mpi() else { return };
    let library = compiled.path("libtributary-mpi.so");
    let Some(lab) = TestLab::new("mpi-alone") else { return };
    lab.up(FOUR_WORKERS, &["--no-rates"]);
    for (options, reason) in [
        (["-x", "TRIBUTARY_JOB="], "TRIBUTARY_JOB is not set"),
        (["-x", "TRIBUTARY_JOB=other"], "\"other\""),
        (["-x", "TRIBUTARY_SOCKET=/dev/null/none"], "no agent's socket at /dev/null/none"),
        (["-x", "TRIBUTARY_MPI_THRESHOLD=1k"], "TRIBUTARY_MPI_THRESHOLD=1k"),
    ] {
        let program = [program.as_str(), "float", "65536", "65536"];
        let output = mpirun(&lab, &library, "1", &options, &program).output().unwrap();
        assert!(text(&output).contains("w0: 65536 "));
        let report = stderr(&output);
        assert_eq!(report.matches("stays with the MPI library").count(), 1, "{report}");
        assert!(report.contains(reason), "{report}");
    }
    lab.down();
    lab.is_gone();
}

#[test]
fn an_mpi_program_whose_agent_dies_ends_with_the_reason() {
    let Some((compiled, program)) = mpi() else { return };
    let library = compiled.path("libtributary-mpi.so");
    let Some(lab) = TestLab::new("mpi-dies") else { return };
    lab.up(FOUR_WORKERS, &["--no-rates"]);
    let options = ["-x", "TRIBUTARY_MPI_THRESHOLD=1024"];
    let mut running = mpirun(&lab, &library, "1", &options, &[&program, "float", "65536"]);
    let mut running = running.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    // The first size is measured, and the next ones take longer.
    assert!(lines.any(|line| line.unwrap().starts_with("w0: 65536 ")));
    lab.lab("kill", &["w1"]);
    let rest: Vec<_> = lines.map(Result::unwrap).collect();
    let ended = running.wait_with_output().unwrap();
    assert!(!ended.status.success(), "{rest:?}");
    let report = stderr(&ended);
    assert!(report.contains("failed in the fabric"), "{report}");
    assert!(!report.contains("is wrong"), "{report}");
    lab.down();
    lab.is_gone();
}

/// Returns the text of silicon's pseudopotential in Debian's package.
fn silicon() -> Option<Vec<u8>> {
    const PACKED: &str = "/usr/share/doc/quantum-espresso/examples/EPW/sic/pp/Si.pz-vbc.UPF.gz";
    let unpacked = Command::new("gunzip").args(["-c", PACKED]).output().unwrap();
    let program = Command::new("which").arg("pw.x").output().unwrap();
    if unpacked.status.success() && program.status.success() {
        return Some(unpacked.stdout);
    }
    eprintln!("SKIPPED: there is no `pw.x` or {PACKED}: install quantum-espresso and quantum-espresso-data");
    None
}

#[test]
fn quantum_espresso_gets_the_same_energy_in_the_fabric() {
    let (Some((compiled, _)), Some(silicon)) = (mpi(), silicon()) else { return };
    let library = compiled.path("libtributary-mpi.so");
    fs::write(compiled.path("Si.pz-vbc.UPF"), silicon).unwrap();
    fs::copy(root().join("tests/programs/silicon.in"), compiled.path("silicon.in")).unwrap();
    let Some(lab) = TestLab::new("espresso") else { return };
    lab.up(FOUR_WORKERS, &["--no-rates"]);
    let folder = compiled.0.path().to_str().unwrap();
    let pseudopotentials = format!("ESPRESSO_PSEUDO={folder}");
    let energy = |job: &str| {
        let options =
            ["-wdir", folder, "-x", &pseudopotentials, "-x", "TRIBUTARY_MPI_THRESHOLD=1024", "-x", job];
        let program = ["pw.x", "-nk", "4", "-i", "silicon.in"];
        let output = mpirun(&lab, &library, "1", &options, &program).output().unwrap();
        let said = text(&output);
        let line = said.lines().find(|line| line.contains("!    total energy")).unwrap().to_owned();
        (line, stderr(&output))
    };
    let (over_fabric, report) = energy("TRIBUTARY_JOB=lab");
    // The density is added in each of seven iterations, and once before.
    assert!(report.contains(" MPI_Allreduce went over the fabric: 2.1 MB"), "{report}");
    let (by_mpi, report) = energy("TRIBUTARY_JOB=");
    assert!(report.contains("stays with the MPI library"), "{report}");
    assert_eq!(over_fabric, by_mpi);
    lab.down();
    lab.is_gone();
}

/// Compiles NCCL's plugin and the program that plays NCCL's part. Returns the paths of both.
fn nccl(compiled: &Compiled) -> [String; 2] {
    let sources = ["collectives", "device", "sockets"].map(|name| format!("crates/capi/nccl/{name}.c"));
    let options = ["-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-z,nodelete", "-ltributary", "-lpthread"];
    let sources = sources.each_ref().map(String::as_str);
    let plugin = compiled.compile_all("cc", &sources, "libnccl-net-tributary.so", &options);
    let options = ["-Icrates/capi/nccl", "-ldl", "-lpthread"];
    let program = compiled.compile("cc", "examples/nccl_plugin.c", "nccl_plugin", &options);
    [program, plugin]
}

#[test]
fn nccls_plugin_sums_in_the_fabric_through_each_version_of_its_table() {
    let Some(compiled) = Compiled::with("cc", "gcc") else { return };
    let [program, plugin] = nccl(&compiled);
    let Some(lab) = TestLab::new("nccl") else { return };
    lab.up(FOUR_WORKERS, &["--no-rates"]);
    for version in ["12", "11", "10", "9", "8"] {
        let said = text(&lab.run(&[&program, &plugin, "check", version]));
        assert_eq!(said.matches(": right").count(), 4, "{said}");
    }
    lab.down();
    lab.is_gone();
}

#[test]
fn nccls_plugin_gives_each_process_of_a_host_its_own_communicators() {
    let Some(compiled) = Compiled::with("cc", "gcc") else { return };
    let [program, plugin] = nccl(&compiled);
    let Some(lab) = TestLab::new("nccl-two") else { return };
    let run = ["lab", "run", FOUR_WORKERS, "--name", &lab.0, "--no-rates", "--ranks-per-host", "2", "--"];
    let said = text(&tributary(&[&run[..], &[program.as_str(), &plugin, "check"]].concat()));
    assert_eq!(said.matches(": right").count(), 8, "{said}");
    lab.is_gone();
}

#[test]
fn nccls_plugin_refuses_on_all_hosts_alike_and_names_the_reason() {
    let Some(compiled) = Compiled::with("cc", "gcc") else { return };
    let [program, plugin] = nccl(&compiled);
    let Some(lab) = TestLab::new("nccl-alone") else { return };
    lab.up(FOUR_WORKERS, &["--no-rates"]);
    let token = compiled.path("token");
    fs::write(&token, "00".repeat(32)).unwrap();
    for (setting, reason) in [
        ("TRIBUTARY_JOB=", "TRIBUTARY_JOB"),
        ("TRIBUTARY_JOB=other", "\"other\""),
        (&format!("TRIBUTARY_TOKEN_FILE={}", token.display()), "PermissionDenied"),
        ("TRIBUTARY_TOKEN_FILE=/dev/null/none", "/dev/null/none"),
        ("TRIBUTARY_SOCKET=/dev/null/none", "/dev/null/none"),
        ("TRIBUTARY_PRECISION=fast", "TRIBUTARY_PRECISION=fast"),
        ("TRIBUTARY_PROCESS=1", "TRIBUTARY_PROCESS=1 and TRIBUTARY_PROCESSES=1"),
    ] {
        let output = lab.run(&["env", setting, &program, &plugin, "measure", "4096", "1", "1"]);
        assert!(!output.status.success(), "{setting}");
        let report = stderr(&output);
        assert!(report.contains(reason), "{report}");
        assert_eq!(report.matches("NCCL would now use its point-to-point transport").count(), 4, "{report}");
    }
    // Only one process has another precision, and all of them refuse.
    let script = "[ $RANK = 2 ] && export TRIBUTARY_PRECISION=float32; exec \"$@\"";
    let output = lab.run(&["sh", "-c", script, "sh", &program, &plugin, "measure", "4096", "1", "1"]);
    let report = stderr(&output);
    assert_eq!(report.matches("process 2 of 4").count(), 4, "{report}");
    assert!(report.contains("its TRIBUTARY_PRECISION differs"), "{report}");
    // The job is still there.
    let said = text(&lab.run(&[&program, &plugin, "measure", "65536", "8", "3"]));
    assert_eq!(said.matches("65536 bytes, 8 in flight").count(), 4, "{said}");
    lab.down();
    lab.is_gone();
}

#[test]
fn nccls_plugin_ends_with_an_error_when_a_host_dies() {
    let Some(compiled) = Compiled::with("cc", "gcc") else { return };
    let [program, plugin] = nccl(&compiled);
    let Some(lab) = TestLab::new("nccl-dies") else { return };
    lab.up(FOUR_WORKERS, &["--no-rates"]);
    let run = ["lab", "run", "--name", &lab.0, "--", &program, &plugin, "measure", "65536", "8", "0"];
    let mut running = TRIBUTARY.command(&run);
    let mut running = running.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(": measures")));
    lab.lab("kill", &["w1"]);
    let rest: Vec<_> = lines.map(Result::unwrap).collect();
    let ended = running.wait_with_output().unwrap();
    assert!(!ended.status.success(), "{rest:?}");
    let report = stderr(&ended);
    assert!(report.contains("of type 7 failed in the fabric"), "{report}");
    for rank in ["0", "2", "3"] {
        // NCCL's ncclRemoteError.
        assert!(report.contains(&format!("rank {rank}: error 6 of the plugin")), "{report}");
    }
    lab.down();
    lab.is_gone();
}
