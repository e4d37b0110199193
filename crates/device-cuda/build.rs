//! Compiles every kernel to a compressed bundle of machine codes, which the program carries. Where there is no compiler for
//! them it builds without kernels, and says so.
//!
//! `NVCC` says where the compiler is (else it is looked for on the `PATH`), `KAURI_CUDA_ARCHS` for which processors to compile, such
//! as `90a` or `80 90a 120`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// What is compiled for unless said otherwise: Ampere (datacentre, desktop), Ada, Hopper, Blackwell (datacentre, desktop).
const ARCHS: &str = "80 86 89 90a 100 120";
/// The oldest, also as code for those to come.
const OLDEST: &str = "80";
/// The compiler that kernels are written for.
const RELEASE: &str = "release 13.";

fn main() {
    println!("cargo::rerun-if-changed=kernels");
    println!("cargo::rerun-if-env-changed=NVCC");
    println!("cargo::rerun-if-env-changed=KAURI_CUDA_ARCHS");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo says where to build"));
    let images = match compiler() {
        Ok(nvcc) => compile_all(&nvcc, &out),
        Err(reason) => {
            println!("cargo::warning=built without CUDA kernels: {reason}");
            Vec::new()
        }
    };
    let mut table = String::from("const IMAGES: &[(&str, &[u8])] = &[\n");
    for (name, path) in &images {
        let path = path.to_string_lossy();
        writeln!(table, "    ({name:?}, include_bytes!({path:?})),").expect("text grows");
    }
    table.push_str("];\n");
    fs::write(out.join("images.rs"), table).expect("the folder can be written");
}

/// The compiler, or why there is none to use.
fn compiler() -> Result<PathBuf, String> {
    let nvcc = env::var_os("NVCC").map_or_else(|| PathBuf::from("nvcc"), PathBuf::from);
    let answer = Command::new(&nvcc).arg("--version").output();
    let answer = answer.map_err(|error| format!("{} does not run ({error}); set NVCC", nvcc.display()))?;
    let text = String::from_utf8_lossy(&answer.stdout);
    if text.contains(RELEASE) { Ok(nvcc) } else { Err(format!("{} is not of {RELEASE}x", nvcc.display())) }
}

/// Compiles every file, and gives their names and bundles.
fn compile_all(nvcc: &Path, out: &Path) -> Vec<(String, PathBuf)> {
    let archs = env::var("KAURI_CUDA_ARCHS").unwrap_or_else(|_| ARCHS.to_owned());
    let archs: Vec<&str> = archs.split_whitespace().collect();
    let files = fs::read_dir("kernels").expect("the folder of the kernels");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "cu"));
    files.sort();
    // As many at a time as cargo runs jobs; each works through its share of the files.
    let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
    let share = files.len().div_ceil(jobs);
    std::thread::scope(|scope| {
        let works: Vec<_> = files
            .chunks(share.max(1))
            .map(|files| scope.spawn(|| files.iter().map(|file| compile(nvcc, &archs, file, out)).collect::<Vec<_>>()))
            .collect();
        works.into_iter().flat_map(|work| work.join().expect("the compiler's errors are above")).collect()
    })
}

fn compile(nvcc: &Path, archs: &[&str], file: &Path, out: &Path) -> (String, PathBuf) {
    let name = file.file_stem().and_then(|name| name.to_str()).expect("a name of letters").to_owned();
    let to = out.join(format!("{name}.fatbin"));
    let mut command = Command::new(nvcc);
    command.args(["-std=c++17", "-O3", "-fatbin", "-compress-mode=size", "-o"]).arg(&to).arg(file);
    for arch in archs {
        command.arg(format!("-gencode=arch=compute_{arch},code=sm_{arch}"));
        if *arch == OLDEST {
            command.arg(format!("-gencode=arch=compute_{arch},code=compute_{arch}"));
        }
    }
    let status = command.status().expect("the compiler that answered before runs again");
    assert!(status.success(), "{} does not compile", file.display());
    (name, to)
}
