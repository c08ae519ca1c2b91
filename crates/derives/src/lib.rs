//! Derives that expand to nothing: programs need no JSON Schemas and TypeScript types. Tests, which write them, use
//! the derives of the same names from schemars and ts-rs.

use proc_macro::TokenStream;

#[proc_macro_derive(JsonSchema, attributes(schemars))]
pub fn json_schema(_: TokenStream) -> TokenStream {
    TokenStream::new()
}

#[proc_macro_derive(TS, attributes(ts))]
pub fn ts(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
