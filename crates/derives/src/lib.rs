//! Derives that expand to nothing. Programs contain neither JSON Schemas nor TypeScript types; tests, which write both,
//! use schemars and ts-rs under the same names.

use proc_macro::TokenStream;

#[proc_macro_derive(JsonSchema, attributes(schemars))]
pub fn json_schema(_: TokenStream) -> TokenStream {
    TokenStream::new()
}

#[proc_macro_derive(TS, attributes(ts))]
pub fn ts(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
