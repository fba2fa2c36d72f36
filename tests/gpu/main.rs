//! The CUDA backend on a real GPU: `RTTS_TEST_GPU=1 cargo test --test gpu [-- PART OF A NAME]`.
//!
//! Without `RTTS_TEST_GPU` nothing of this is run, and the last line says so; only what must hold without a GPU is checked.
//! With it a missing GPU is a failure.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

#[path = "../conformance/mod.rs"]
mod conformance;
mod speech;
mod stack;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use conformance::Backend;
use rtts::compute::Compute;
use rtts::compute::cuda::Cuda;

/// Products are right to 2^-16 or so, keys and values are rounded to bfloat16, which the suite's inputs survive.
const TOLERANCE: f64 = 2e-5;

fn main() -> ExitCode {
    if std::env::var_os("RTTS_TEST_GPU").is_none_or(|v| v != "1") {
        explains_itself();
        println!("gpu: NOTHING WAS RUN ON A GPU: set RTTS_TEST_GPU=1 for that");
        return ExitCode::SUCCESS;
    }
    let compute = match Cuda::first(&mut |note| println!("gpu: {note}")) {
        Ok(compute) => compute,
        Err(error) => {
            println!("gpu: FAILED: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("gpu: on {}", compute.describe());
    let backend = Backend { compute, tolerance: TOLERANCE };
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-')).unwrap_or_default();
    let (mut passed, mut failed) = (0, Vec::new());
    let mut run = |name: &str, check: &dyn Fn()| {
        if !name.contains(&filter) {
            return;
        }
        let begun = Instant::now();
        match catch_unwind(AssertUnwindSafe(check)) {
            Ok(()) => passed += 1,
            Err(_) => failed.push(name.to_owned()),
        }
        let word = if failed.last().is_some_and(|f| f == name) { "FAILED" } else { "ok" };
        println!("{word} {name} ({:.2} s)", begun.elapsed().as_secs_f64());
    };
    for (name, check) in conformance::suite!(list) {
        run(name, &|| check(&backend));
    }
    run("stack::is_the_cpus", &|| stack::is_the_cpus(&backend.compute));
    run("stack::any_company", &|| stack::any_company(&backend.compute));
    for (name, check) in speech::CHECKS {
        run(name, check);
    }
    println!("gpu: {passed} passed, {} failed {}", failed.len(), failed.join(" "));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Where there is no GPU, the reason and a way out are told, and nothing panics.
fn explains_itself() {
    match Cuda::first(&mut |_| ()) {
        Ok(compute) => println!("gpu: there is one: {}", compute.describe()),
        Err(error) => {
            println!("gpu: {error}");
            assert!(error.cure().is_some_and(|cure| cure.contains("--device cpu")), "{error} has no cure");
        }
    }
}
