import type { BuildOptions } from 'rolldown'
declare const configuration: BuildOptions
export default configuration
