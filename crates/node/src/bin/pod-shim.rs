//! The shim alone: what `basalt pod-shim` is, without the rest of the server.

use std::process::ExitCode;

use basalt_node::local::shim;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|word| word == shim::WORD) {
        return shim::main(arguments);
    }
    eprintln!("usage: pod-shim {} …", shim::WORD);
    ExitCode::from(2)
}
