//! The engine, told what happens and asked what it would do.

mod anew;
mod cases;
mod crowds;
mod damage;
mod deadlines;
mod language;
mod locks;
mod nodes;
mod properties;
mod room;
mod scenarios;
