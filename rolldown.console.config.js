/**
 * The owner's page as the few files that a browser loads: `npm run console` writes them where the sources
 * look for them, `npm run build` where the package does (src/files/console.ts).
 */
import { readFileSync } from 'node:fs'

/** What stands beside the script, as it is. */
const BESIDE = ['index.html', 'console.css', 'console.svg', 'worker.js']

export default {
  input: { console: 'src/console/main.tsx' },
  platform: 'browser',
  tsconfig: 'src/console/tsconfig.json',
  plugins: [bufferOfBrowsers(), filesBeside()],
  output: {
    dir: '.cache/console',
    format: 'esm',
    minify: true,
    codeSplitting: false,
    entryFileNames: '[name].js',
  },
}

/** The one word of node:buffer that the wire needs, for the bytes that a browser never gives it. */
function bufferOfBrowsers() {
  const id = '\0node:buffer'
  return {
    name: 'buffer-of-browsers',
    resolveId: { order: 'pre', handler: wanted => (wanted === 'node:buffer' ? id : null) },
    load: wanted => (wanted === id ? 'export const isUtf8 = () => false' : null),
  }
}

function filesBeside() {
  return {
    name: 'files-beside',
    generateBundle() {
      for (const fileName of BESIDE)
        this.emitFile({ type: 'asset', fileName, source: readFileSync(`src/console/${fileName}`) })
    },
  }
}
