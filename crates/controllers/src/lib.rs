//! Queue, job and podgroup controllers: view in, changes out; pure.
