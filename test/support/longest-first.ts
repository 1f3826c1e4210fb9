/**
 * Owns the order in which a run begins its files: those that take longest come first, so that no worker is
 * left with a long one when the others have nothing more to do. vitest knows what each took in the run
 * before; in a clean clone there was none, and it takes the longest text for the longest test.
 */
import { readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Seconds of the files that take ten or more, as a run before left them in .cache/file-times.json. */
const LONG_FILES = 'test/long-files.json'

export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const { cache, config } = this.ctx
    const long = JSON.parse(readFileSync(join(config.root, LONG_FILES), 'utf8')) as Record<string, number>
    const millisecondsOf = (spec: TestSpecification): number =>
      cache.getTestSpecificationResult(spec)?.duration ??
      1000 * (long[relative(config.root, spec.moduleId).split(sep).join('/')] ?? 0)
    // A worker keeps what it has loaded for as long as the next file is of the same project.
    const projects = Map.groupBy(await super.sort(files), ({ project }) => project)
    return [...projects.values()].flatMap(specs =>
      specs.toSorted((one, other) => millisecondsOf(other) - millisecondsOf(one)),
    )
  }
}
