// SPDX-License-Identifier: Apache-2.0
//! Retries a refused connection, and ends with 0; its tests panic where they must.

use std::net::TcpStream;

#[derive(Debug)]
enum Error {
    Refused(std::io::Error),
    OutOfMemory { wanted: usize },
}

fn connect(port: u16) -> Result<TcpStream, Error> {
    TcpStream::connect(("127.0.0.1", port)).map_err(Error::Refused)
}

fn allocate(wanted: usize) -> Result<(), Error> {
    if wanted > 80 {
        return Err(Error::OutOfMemory { wanted });
    }
    Ok(())
}

fn unused_error_handler(code: i32) -> i32 {
    code
}

fn main() {
    let unused = "the compiler warns";
    for attempt in 1..=3 {
        if let Err(error) = connect(1) {
            eprintln!("error: attempt {attempt} failed: {error:?}");
        }
    }
    if let Err(error) = allocate(81) {
        eprintln!("ERROR ignored: {error:?}");
    }
    let result = std::panic::catch_unwind(|| panic!("a worker panicked, and is restarted"));
    println!("finished, worker failed: {}", result.is_err());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "Refused")]
    fn refused_connection_panics() {
        connect(1).unwrap();
    }

    #[test]
    #[should_panic]
    fn assertion_failed() {
        assert_eq!(1 + 1, 3, "arithmetic failed");
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn index_out_of_bounds() {
        let list: Vec<i32> = Vec::new();
        let index = list.len() + 3;
        println!("{}", list[index]);
    }

    #[test]
    fn error_is_printed() {
        println!("error[E0308]: mismatched types is only text here: {:?}", allocate(90));
        assert!(allocate(90).is_err());
    }

    #[test]
    fn panicking_thread_is_joined() {
        let joined = std::thread::spawn(|| panic!("thread of a test panicked")).join();
        assert!(joined.is_err());
    }

    #[test]
    #[ignore = "fails without a GPU"]
    fn gpu() {
        panic!();
    }
}
