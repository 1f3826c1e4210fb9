/**
 * Owns the format of the files in which reports wait: one line that says whose they are, then one line for
 * each report, each line with a checksum. Contract: "Events", 2. One process writes a file, line by line at
 * its end. If a kill cut off a line, its call was never let through.
 */
import { crc32 } from 'node:zlib'
import { z } from 'zod'
import { asClientId, asFamily, asOwner, type ClientId, type Owner } from '../../wire/identifiers.ts'
import { OWNER_ENDS } from '../../wire/documents/owner-ends.ts'
import type { AccessReport } from './outbox.ts'

/** Changed with the format: files of another version are left alone. */
const MAGIC = 'usher-access-reports 1'

/** The owner and run of a file's reports. */
export interface SegmentHead {
  instance: string
  authority: string
  client_id: ClientId
  owner: Owner
  /** The last number given before the first report of this file. */
  n: number
  /**
   * The boot id of the machine that wrote it: what its process had written survives a kill, but not a crash
   * of the machine.
   */
  boot: string
}

const HEAD = z.object({
  instance: z.string(),
  authority: z.string(),
  client_id: z.string().transform(asClientId),
  owner: z.string().transform(asOwner),
  n: z.int().min(0),
  boot: z.string(),
})
const RECORD = z.object({
  n: z.int().min(1),
  family: z.string().transform(asFamily),
  jti: z.string().optional(),
  tool: z.string(),
  summary: z.string(),
  at: z.number(),
  at_ms: z.number().optional(),
  judged: OWNER_ENDS.optional(),
})
export type SegmentRecord = AccessReport & { n: number }

const lineOf = (value: object): string => {
  const text = JSON.stringify(value)
  return `${crc32(text).toString(16).padStart(8, '0')} ${text}\n`
}
export const headLine = (head: SegmentHead): string => `${MAGIC} ${lineOf(head)}`
export const recordLine = (record: SegmentRecord): string => lineOf(record)

/** The first line of a file, without its end: undefined if it has another version, or is no file of ours. */
export function readHead(line: string): SegmentHead | undefined {
  return line.startsWith(`${MAGIC} `) ? readLine(line.slice(MAGIC.length + 1), HEAD) : undefined
}

/** A line of a report, without its end: undefined if it is damaged. */
export function readRecord(line: string): SegmentRecord | undefined {
  return readLine(line, RECORD)
}

function readLine<T>(line: string, schema: z.ZodType<T>): T | undefined {
  const text = line.slice(9)
  if (line.slice(0, 9) !== `${crc32(text).toString(16).padStart(8, '0')} `) return undefined
  try {
    return schema.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}
