/**
 * Owns the built files of the owner's page, and the headers under which a browser may have them. Contract:
 * "Owner API": every server of the page serves the same files, under the same policy.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { gzipSync } from 'node:zlib'

/** One file as it is served; `etag` changes with it. */
export interface ConsoleFile {
  type: string
  bytes: Buffer
  gzipped: Buffer
  etag: string
}

/** The path of each, below the address of the page. */
export const CONSOLE_FILES = {
  '/': { file: 'index.html', type: 'text/html; charset=utf-8' },
  '/console.js': { file: 'console.js', type: 'text/javascript; charset=utf-8' },
  '/console.css': { file: 'console.css', type: 'text/css; charset=utf-8' },
  '/console.svg': { file: 'console.svg', type: 'image/svg+xml' },
  '/worker.js': { file: 'worker.js', type: 'text/javascript; charset=utf-8' },
} as const
export type ConsolePath = keyof typeof CONSOLE_FILES

/**
 * One policy for every file of the page: it runs only its own script, makes no script or markup from text
 * (Trusted Types; their one policy gives the address of its worker), sends requests only to its own server
 * and, if it can log in at a realm, to that realm's token endpoint, and cannot be framed.
 */
const policy = (connects: readonly string[]): string =>
  [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    ["connect-src 'self'", ...connects].join(' '),
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    'trusted-types usher-worker',
  ].join('; ')

/**
 * Sent with each file. A file that is requested again is compared by its etag, so that a new build is loaded
 * at once.
 */
const CONSOLE_HEADERS: Readonly<Record<string, string>> = {
  'cache-control': 'no-cache',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=(), payment=(), usb=()',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  vary: 'accept-encoding',
}

/**
 * The page as it was built, by path; undefined if it was not built: the sources have it after `npm run
 * console`, the package always. This module stays two folders deep: the same relative path leads there from
 * the bundle.
 */
export function readConsole(): Record<ConsolePath, ConsoleFile> | undefined {
  const folder = extname(import.meta.filename) === '.ts' ? '../../.cache/console/' : '../../console/'
  const read = ({ file, type }: { file: string; type: string }): ConsoleFile => {
    const bytes = readFileSync(new URL(folder + file, import.meta.url))
    const etag = `"${digest(bytes)}"`
    return { type, bytes, gzipped: gzipSync(bytes, { level: 9 }), etag }
  }
  try {
    return {
      '/': read(CONSOLE_FILES['/']),
      '/console.js': read(CONSOLE_FILES['/console.js']),
      '/console.css': read(CONSOLE_FILES['/console.css']),
      '/console.svg': read(CONSOLE_FILES['/console.svg']),
      '/worker.js': read(CONSOLE_FILES['/worker.js']),
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

function digest(of: string | Buffer): string {
  return createHash('sha256').update(of).digest('base64url').slice(0, 22)
}

/**
 * How one file is answered to a request that takes these encodings and knows that etag: 304 without a body if
 * it has it already, under the same policy. `connects` are origins that the page may contact besides its own.
 */
export function answerConsole(
  file: ConsoleFile,
  request: {
    acceptEncoding: string | undefined
    ifNoneMatch: string | undefined
    connects?: readonly string[]
  },
): { status: 200 | 304; headers: Record<string, string>; body: Buffer | undefined } {
  const connects = request.connects ?? []
  // A response that a browser kept under one policy must not be used under another.
  const etag = connects.length === 0 ? file.etag : `"${file.etag.slice(1, -1)}.${digest(connects.join(' '))}"`
  const headers = {
    ...CONSOLE_HEADERS,
    'content-security-policy': policy(connects),
    'content-type': file.type,
    etag,
  }
  if (request.ifNoneMatch === etag) return { status: 304, headers, body: undefined }
  const takesGzip = /(?:^|[\s,])gzip(?:\s*(?:,|$))/i.test(request.acceptEncoding ?? '')
  if (!takesGzip) return { status: 200, headers, body: file.bytes }
  return { status: 200, headers: { ...headers, 'content-encoding': 'gzip' }, body: file.gzipped }
}
