import { existsSync, readFileSync } from 'node:fs'

/**
 * The command line as a few files in place of a thousand modules, which a process would look for one by one
 * whenever it starts. Made from the sources; `npm run build` puts it beside the modules that
 * `@usher-authz/usher/agent` and `@usher-authz/usher/embedded` are.
 *
 * Two folders deep, as the sources are, so that `proto` and `migrations` are found alike. Not minified: a
 * stack tells functions and lines. A process keeps the text of what it loaded, so what it never reads is left
 * out (docs/performance.md).
 */
export default {
  input: 'src/cli.ts',
  platform: 'node',
  // What pg would take instead of itself where it stands.
  external: ['pg-native'],
  plugins: [
    demoOutside(),
    // What src/http imports of it. All of it has a fetch, WebSockets and caches of its own.
    inPlaceOf(
      'undici',
      `export { default as Agent } from 'undici/lib/dispatcher/agent.js'
       export { default as buildConnector } from 'undici/lib/core/connect.js'`,
    ),
    // Compilers for route schemas, which src/http/servers/server.ts refuses.
    inPlaceOf('@fastify/ajv-compiler', 'export {}'),
    inPlaceOf('@fastify/fast-json-stringify-compiler', 'export {}'),
    asciiAlone(),
    libsodiumBeside(),
  ],
  output: {
    dir: 'dist/bin/usher',
    format: 'esm',
    comments: { legal: true, annotation: false, jsdoc: false },
  },
}

/**
 * `usher dev` is development: the package has it beside the bundle, as modules, and the image has it not
 * (src/cli.ts says so).
 */
function demoOutside() {
  return {
    name: 'demo-outside',
    resolveId: wanted =>
      wanted === './dev/main.ts' ? { id: '../../src/dev/main.js', external: true } : null,
  }
}

/** A module of our own where one is imported by that name. */
function inPlaceOf(name, code) {
  const id = `\0${name}`
  return {
    name: `in-place-of-${name}`,
    resolveId: wanted => (wanted === name ? id : null),
    load: wanted => (wanted === id ? code : null),
  }
}

/**
 * The binaries of libsodium for the platforms of the image, which has no packages; the package of npm has
 * them as a dependency instead (src/native/libsodium.ts).
 */
function libsodiumBeside() {
  const folder = 'node_modules/sodium-native'
  const wanted = [
    // What they are made of has a licence each.
    [`${folder}/LICENSE`, 'LICENSE'],
    ['src/native/LICENSE.libsodium', 'LICENSE.libsodium'],
    ...['linux-x64', 'linux-arm64'].map(platform => [
      `${folder}/prebuilds/${platform}/sodium-native.node`,
      `${platform}/sodium-native.node`,
    ]),
  ]
  return {
    name: 'libsodium-beside',
    generateBundle() {
      if (!existsSync(folder)) return this.warn('sodium-native is not installed: made without it')
      for (const [from, to] of wanted)
        this.emitFile({ type: 'asset', fileName: `native/${to}`, source: readFileSync(from) })
    },
  }
}

/**
 * Every other character as its escape: a text with one of them takes two bytes for each of its characters.
 */
function asciiAlone() {
  return {
    name: 'ascii-alone',
    generateBundle(_options, bundle) {
      for (const chunk of Object.values(bundle)) {
        if (chunk.type !== 'chunk') continue
        // An escape of its own would become one of a backslash.
        if (/(?<!\\)(?:\\\\)*\\[^\0-\x7f]/.test(chunk.code))
          throw new Error(`${chunk.fileName} escapes a character beyond ASCII`)
        chunk.code = chunk.code.replaceAll(
          /[^\0-\x7f]/g,
          unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
        )
      }
    },
  }
}
